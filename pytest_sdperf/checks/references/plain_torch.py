"""References that plain torch computes: the module of a component, or those of a request, and no engine's options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_sdperf.builds.execution.calls import ReplayCall, call_requests
from pytest_sdperf.builds.execution.runner import CaseRunner
from pytest_sdperf.checks.references.derived import plain_runner
from pytest_sdperf.checks.references.stored import Stored
from pytest_sdperf.core import progress
from pytest_sdperf.core.files.arrays import Arrays
from pytest_sdperf.core.values import roundings, to_json
from pytest_sdperf.tasks._execution import Ran
from pytest_sdperf.tasks.pipeline import DrawPrompts
from pytest_sdperf.tasks.reference import RunInDtypes
from pytest_sdperf.tasks.replay import AnswerGroups, CallGroup

PICTURE_BATCH = 10
"""Of pictures, whatever the batch size of a case is."""
_IMAGES = "images"
_TORCH = "pytest_sdperf.engines.torch_eager"


def outputs(runner: CaseRunner, dtypes: Sequence[str]) -> Stored:
    """Return what the case itself puts out, by dtype."""
    plain, case = plain_runner(runner), runner.case

    def compute(missing: Sequence[str]) -> Mapping[str, Any]:
        of = f"{case.model} {case.component}"
        with progress.step(f"computing references of {of} in {roundings.in_words(missing)}", like=case.key):
            return run(plain, missing)

    return Stored.of(
        plain,
        {dtype: {"dtype": dtype} for dtype in dtypes},
        compute,
        code=("pytest_sdperf.tasks.reference", _TORCH),
    )


def run(
    plain: CaseRunner, dtypes: Sequence[str], inputs: Arrays | None = None, *, inside: bool = False
) -> Mapping[str, str]:
    """Return dtype -> npz file with the outputs; they are computed now, in one process.

    Args:
        plain: Of `plain_runner`.
        dtypes: Dtypes.
        inputs: Of the component; the seeded ones if None.
        inside: Whether `inside.npz` is beside each, with what the modules inside gave.
    """
    asked = RunInDtypes(plain.execution(inputs), tuple(dtypes), inside)
    return plain.task("run", asked, dict[str, str], module="reference")


def answers(runner: CaseRunner, asked: Mapping[str, tuple[Sequence[ReplayCall], str]]) -> Stored:
    """Return the answers to calls, by the name under which calls and a dtype are asked."""
    plain = plain_runner(runner)

    def compute(missing: Sequence[str]) -> Mapping[str, Any]:
        case = runner.case
        groups = {name: CallGroup(call_requests(plain, asked[name][0]), asked[name][1]) for name in missing}
        with progress.step(f"computing answers of {case.model} {case.component} with torch", like=case.key):
            return plain.task("reference", AnswerGroups(plain.execution({}), groups), dict[str, str], module="replay")

    variants = {
        name: {"dtype": dtype, "calls": [to_json(call) for call in group]} for name, (group, dtype) in asked.items()
    }
    return Stored.of(plain, variants, compute, code=("pytest_sdperf.tasks.replay", _TORCH))


def pictures(runner: CaseRunner, prompts: Sequence[str]) -> Any:
    """Return the pictures of prompts in float32 (prompts, 3, H, W).

    Raises:
        SdperfError: Torch could not draw.
    """
    plain = plain_runner(runner, batch_size=min(PICTURE_BATCH, len(prompts)))

    def compute(_: Sequence[str]) -> Mapping[str, Any]:
        with progress.step(f"drawing {len(prompts)} prompts with torch in float32, for comparison"):
            return {_IMAGES: plain.task("draw", DrawPrompts(plain.execution(), tuple(prompts)), Ran).outputs}

    return Stored.of(
        plain, {_IMAGES: {"prompts": prompts}}, compute, code=("pytest_sdperf.tasks.pipeline", _TORCH)
    ).read()[_IMAGES][_IMAGES]
