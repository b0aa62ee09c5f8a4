"""What half precision changes: a whole request in float32 and in half precision, from the same latents."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_sdperf.builds.execution.external_pipeline import ExternalPipelineRunner
from pytest_sdperf.builds.execution.runner import CaseRunner
from pytest_sdperf.checks.images.strips import Pair, save
from pytest_sdperf.checks.precision.drift import drift_of_engine, drift_of_torch
from pytest_sdperf.checks.precision.roundings import judged_by_several
from pytest_sdperf.checks.references.derived import plain_runner
from pytest_sdperf.checks.references.of_case import other_roundings, references
from pytest_sdperf.checks.references.which import by_torch
from pytest_sdperf.core.components import LATENTS
from pytest_sdperf.core.files.arrays import load_arrays, save_arrays
from pytest_sdperf.core.ladder import AS_IS
from pytest_sdperf.core.values import Case
from pytest_sdperf.core.values.outcomes import Agreement
from pytest_sdperf.tasks._execution import Ran
from pytest_sdperf.tasks.decode import DecodeSteps

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    Arrays = Mapping[str, np.ndarray[Any, Any]]

HALVES = ("float16", "bfloat16")
SINGLE = "fp32"


@dataclasses.dataclass(frozen=True)
class Drift:
    """How far half precision drifted, and what it drifted from.

    Attributes:
        agreement: Every step against its limit.
        half, single: Outputs of the request in half precision and in float32.
    """

    agreement: Agreement
    half: Arrays
    single: Arrays


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


def draw(drift: Drift, runner: CaseRunner, folder: Path) -> list[Path]:
    """Write what a drift looks like, step by step, and return the files.

    The latents of both are decoded by torch in float32: what differs in a picture is what differs in its latents.

    Args:
        drift: What was compared.
        runner: Its case.
        folder: Where `strip.png`, `steps.gif` and `latents.npz` are written.

    Raises:
        SdperfError: The latents could not be decoded.
    """
    names = ("float32", drift.agreement.dtype)
    folder.mkdir(parents=True, exist_ok=True)
    latents = dict(zip(names, (drift.single[LATENTS], drift.half[LATENTS]), strict=True))
    kept, plain = save_arrays(folder / "latents.npz", latents), plain_runner(runner)
    runner.context.say(f"decoding the steps of {runner.case.model} in {' and '.join(names)}")
    answer = plain.task("run", DecodeSteps(plain.execution(), kept), Ran, module="decode")
    pictures = load_arrays(Path(answer.outputs))
    pair = Pair(names, (pictures[names[0]], pictures[names[1]]), [step.error for step in drift.agreement.steps])
    return [*save(pair, folder), kept]


def single_of(case: Case) -> Case:
    """Return the same case in float32."""
    return dataclasses.replace(case, optimization=SINGLE, fp32_ops="")


def torch_drift(runner: CaseRunner, dtype: str) -> Drift:
    """Return how far torch drifts in half precision. Raises as `of_case.references` does."""
    wanted = references(runner, dtypes_of(runner))
    half, single = wanted[dtype], wanted["float32"]
    return Drift(drift_of_torch(half, single, exact=wanted["float64"], dtype=dtype), half, single)


def engine_drift(runner: CaseRunner, single_runner: CaseRunner) -> Drift:
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
    return Drift(found, half, single)
