"""What a loaded case is called with, one call after the other, and what it and torch answer."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pytest_sdperf.builds.execution.calls import ReplayCall, by_call, call_requests
from pytest_sdperf.builds.execution.runner import PROMPT, CaseRunner
from pytest_sdperf.checks.references import float32_graph
from pytest_sdperf.checks.references.of_case import answers
from pytest_sdperf.checks.references.which import by_torch
from pytest_sdperf.core.files.arrays import Arrays, load_arrays
from pytest_sdperf.core.reference_error import exact_and_rough
from pytest_sdperf.core.values.replays import Replay
from pytest_sdperf.core.values.roundings import OTHERS, labels
from pytest_sdperf.tasks.replay import CallsMade, MakeCalls

# Of image i of a batch; the first one is that of every other test.
PROMPTS = (
    PROMPT,
    "beautiful scenery in a glass bottle, a purple galaxy behind it",
    "a large red circle left of a small blue square on a white background",
    "an oil painting of a lighthouse in a storm",
)


@dataclasses.dataclass(frozen=True)
class Answers:
    """What calls of one loaded case brought.

    Attributes:
        outputs: Arrays by output name, of each call.
        overwritten: Outputs that a later call changed.
        prepared: Graphs that the engine had compiled after each call; empty where it cannot tell.
        peaks_bytes: What told it -> peak memory of each call.
    """

    outputs: Sequence[Arrays]
    overwritten: tuple[str, ...]
    prepared: tuple[int, ...]
    peaks_bytes: Mapping[str, Sequence[int]]

    def prepared_by(self, first: int) -> dict[str, int]:
        """Return how many graphs the `first` calls made, and how many all later ones."""
        if not self.prepared:
            return {}
        return {"first": self.prepared[first - 1], "later": self.prepared[-1] - self.prepared[first - 1]}


@dataclasses.dataclass(frozen=True)
class ReferenceAnswers:
    """What torch answers to calls, or an export in single precision where no torch module stands for an external graph.

    Attributes:
        dtype: Dtype that is tested.
        exact: Answers of higher precision.
        rough: Answers in that dtype, of each call in one rounding or several: the plain run.
        by: What answered.
        reference: Dtype of `exact`.
    """

    dtype: str
    exact: Sequence[Arrays]
    rough: Sequence[Sequence[Arrays]]
    by: str
    reference: str


def is_plain_torch(runner: CaseRunner) -> str:
    """Say that a case is what others are compared with, and what to type; empty if it is not."""
    if runner.case.engine == "torch" and not runner.case.engine_options:
        return (
            "not applicable: plain torch is what the others are compared with; name another engine, or options of this "
            "one, such as --sdperf-engine=torch:channels_last=on"
        )
    return ""


def one_size(runner: CaseRunner) -> str:
    """Say why a loaded case serves one size alone, and what to type; empty if it serves others too."""
    engine = runner.engine
    if not engine.resizes:
        return f"not applicable: {engine.name} serves the size that it was loaded for, and no other"
    if runner.case.shapes != "static":
        return ""
    told = "export it with dynamic axes" if runner.case.exporter == "external" else "type --sdperf-shapes=dynamic"
    return f"not applicable: the graph takes one size alone; {told}"


def make_calls(runner: CaseRunner, calls: Sequence[ReplayCall]) -> Answers:
    """Load the case once, in a fresh process, and make calls.

    Raises:
        SdperfError: The engine refused, crashed, hung or ran out of memory.
    """
    asked = MakeCalls(runner.execution({}), call_requests(runner, calls))
    made = runner.task("run", asked, CallsMade, module="replay")
    outputs = by_call(load_arrays(Path(made.outputs)), len(calls))
    return Answers(outputs, made.overwritten, made.prepared, made.peaks_bytes)


def judged(
    runner: CaseRunner, calls: Sequence[ReplayCall], torch: ReferenceAnswers, make: Callable[[ReferenceAnswers], Replay]
) -> Replay:
    """Compare with torch: where a request is beyond a limit of one rounding, with several (`precision.roundings`).

    Args:
        runner: The case.
        calls: What was asked.
        torch: What torch answers, in one rounding.
        make: Compares with what torch answers.

    Raises:
        As `wanted`.
    """
    replay = make(torch)
    if not runner.is_pipeline or not replay.beyond:
        return replay
    return make(wanted(runner, calls, several=True))


def wanted(runner: CaseRunner, calls: Sequence[ReplayCall], *, several: bool = False) -> ReferenceAnswers:
    """Return what torch answers to the same calls, if asked for in several roundings; from the cache if it is there.

    Raises:
        NoReferenceError: There is neither a torch module nor an export to compare with.
        SdperfError: Torch, or the export, could not run.
    """
    dtype = runner.dtype
    if not by_torch(runner):
        numbers = range(OTHERS + 1 if several else 1)
        right, others = float32_graph.answers(runner, dtype, calls, numbers=numbers)
        return ReferenceAnswers(
            dtype, right, list(zip(*others, strict=True)), float32_graph.BY, float32_graph.REFERENCE
        )
    exact, *rough = (*exact_and_rough(dtype), *(labels(dtype) if several else ()))
    (found,) = answers(runner, [calls], (exact, *rough))
    return ReferenceAnswers(dtype, found[exact], list(zip(*(found[one] for one in rough), strict=True)), "torch", exact)
