"""What half precision changes: a whole request in float32 and in half precision, from the same latents."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from pathlib import Path

from pytest_sdperf.builds.execution.external_pipeline import ExternalPipelineRunner
from pytest_sdperf.builds.execution.runner import CaseRunner
from pytest_sdperf.checks.agreement import table
from pytest_sdperf.checks.agreement.judging import judge_agreements
from pytest_sdperf.checks.images.strips import Pair, save
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.precision.drift import DRIFT, drift_of_engine, drift_of_torch
from pytest_sdperf.checks.precision.roundings import judged_by_several
from pytest_sdperf.checks.references.derived import plain_runner
from pytest_sdperf.checks.references.of_case import other_roundings, references
from pytest_sdperf.checks.references.which import by_torch
from pytest_sdperf.core import progress
from pytest_sdperf.core.check import Check
from pytest_sdperf.core.components import LATENTS
from pytest_sdperf.core.errors import NoReferenceError
from pytest_sdperf.core.files.arrays import Arrays, load_arrays, save_arrays
from pytest_sdperf.core.ladder import AS_IS
from pytest_sdperf.core.values import Case
from pytest_sdperf.core.values.check import CheckRow
from pytest_sdperf.core.values.outcomes import Agreement, Verdict
from pytest_sdperf.tasks._execution import Ran
from pytest_sdperf.tasks.decode import DecodeSteps

HALVES = ("float16", "bfloat16")
SINGLE = "fp32"


class Drifts(Check):
    """Compare steps of half precision with those of single precision: `sdperf_drift(runner)` fails beyond the limit."""

    name = DRIFT
    compares = True
    columns = table.COLUMNS

    def __init__(self) -> None:
        self._singles: dict[tuple[Case, Path | None], CaseRunner] = {}

    def references(self, subject: CaseRunner) -> Sequence[str]:
        """Return what torch runs in for the drift of any test of the case."""
        return dtypes_of(subject)

    def run(self, subject: CaseRunner) -> Agreement:
        """Run the engine in half and in single precision."""
        _check(not_applicable(subject, ""))
        return engine_drift(subject, self._single(subject))

    def judge(self, finding: Agreement, case: Case, *, policy: Policy) -> Verdict:
        """Judge every step."""
        return judge_agreements([finding], metric=self.name)

    def rows(self, finding: Agreement) -> Sequence[CheckRow]:
        """Return the step that is nearest to its limit."""
        return table.rows([finding])

    def legends(self, finding: Agreement) -> Sequence[str]:
        """Say what limits it."""
        return table.legends([finding])

    def draw(self, finding: Agreement, subject: CaseRunner, folder: Path) -> Sequence[Path]:
        """Draw the steps of both."""
        return draw(finding, subject, folder, (self._single(subject).outputs(), subject.outputs()))

    def _single(self, subject: CaseRunner) -> CaseRunner:
        """Return the same engine in float32: one for all tests, which executes its request once."""
        case = single_of(subject.case)
        single = subject.as_reference(case, subject.request)
        return self._singles.setdefault((case, subject.request.python), single)


class TorchDrifts(Drifts):
    """Compare steps of torch in half precision with those of torch in single precision."""

    beside = DRIFT
    sides = "A"

    def __init__(self, dtype: str) -> None:
        super().__init__()
        self.name, self.word = f"{DRIFT}_{dtype}", dtype

    def run(self, subject: CaseRunner) -> Agreement:
        """Run torch alone, whatever the engine of the case."""
        _check(not_applicable(subject, self.word))
        return torch_drift(subject, self.word)

    def draw(self, finding: Agreement, subject: CaseRunner, folder: Path) -> Sequence[Path]:
        """Draw the steps of both."""
        wanted = references(subject, ("float32", self.word))
        return draw(finding, subject, folder, (wanted["float32"], wanted[self.word]))


def _check(why: str) -> None:
    if why:
        raise NoReferenceError(why)


def not_applicable(runner: CaseRunner, dtype: str) -> str:
    """Say why the drift of a case cannot be told; empty where it can.

    Args:
        runner: The case.
        dtype: Half precision in which torch itself is looked at; empty for the engine of the case.
    """
    if not runner.is_pipeline:
        return "not applicable: only a whole request has denoising steps; name the component pipeline"
    if isinstance(runner, ExternalPipelineRunner):
        return "not applicable: a pipeline of your own runs in one dtype, the one that your code gives it"
    if runner.case.optimization == AS_IS and not dtype:
        return "not applicable: graphs that are taken as they are have one dtype"
    if not by_torch(runner):
        return (
            "not applicable: there are no torch weights that could be run in both dtypes; type "
            "--sdperf-weights=FOLDER with those that the graphs were exported from"
        )
    if not dtype and runner.dtype not in HALVES:
        return f"not applicable: {runner.dtype} is what half precision is compared with"
    return ""


def dtypes_of(runner: CaseRunner) -> tuple[str, ...]:
    """Return the dtypes in which torch runs for the drift of a case."""
    return ("float32", runner.dtype) if runner.dtype in HALVES else ("float64", "float32", *HALVES)


def draw(drift: Agreement, runner: CaseRunner, folder: Path, requests: tuple[Arrays, Arrays]) -> list[Path]:
    """Write what a drift looks like, step by step, and return the files.

    The latents of both are decoded by torch in float32: what differs in a picture is what differs in its latents.

    Args:
        drift: What was compared.
        runner: Its case.
        folder: Where `strip.png`, `steps.gif` and `latents.npz` are written.
        requests: Outputs in float32 and in half precision.

    Raises:
        SdperfError: The latents could not be decoded.
    """
    names = ("float32", drift.dtype)
    folder.mkdir(parents=True, exist_ok=True)
    latents = {name: outputs[LATENTS] for name, outputs in zip(names, requests, strict=True)}
    kept, plain = save_arrays(folder / "latents.npz", latents), plain_runner(runner)
    with progress.step(f"decoding the steps of {runner.case.model} in {' and '.join(names)}"):
        answer = plain.task("run", DecodeSteps(plain.execution(), kept), Ran, module="decode")
    pictures = load_arrays(Path(answer.outputs))
    pair = Pair(names, (pictures[names[0]], pictures[names[1]]), [step.error for step in drift.steps])
    return [*save(pair, folder), kept]


def single_of(case: Case) -> Case:
    """Return the same case in float32."""
    return dataclasses.replace(case, optimization=SINGLE, fp32_ops="")


def torch_drift(runner: CaseRunner, dtype: str) -> Agreement:
    """Return how far torch drifts in half precision. Raises as `of_case.references` does."""
    wanted = references(runner, dtypes_of(runner))
    return drift_of_torch(wanted[dtype], wanted["float32"], exact=wanted["float64"], dtype=dtype)


def engine_drift(runner: CaseRunner, single_runner: CaseRunner) -> Agreement:
    """Return how far the engine of a case drifts in half precision.

    Args:
        runner: The case, in half precision.
        single_runner: The same case in float32.

    Raises:
        SdperfError: It, or torch, could not run.
    """
    dtype = runner.dtype
    wanted = references(runner, dtypes_of(runner))
    half, single = runner.outputs(), single_runner.outputs()

    def compare_with(plain: Arrays) -> tuple[Agreement, ...]:
        return (drift_of_engine(half, single, plain=(plain, wanted["float32"]), dtype=dtype),)

    others = functools.partial(other_roundings, runner, dtype)
    (found,) = judged_by_several(compare_with(wanted[dtype]), others, compare_with)
    return found
