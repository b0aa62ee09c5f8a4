"""Equal calls, with another one between them: in one process, and in several."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_sdperf.executing.calls import Call
from pytest_sdperf.executing.runner import CaseRunner
from pytest_sdperf.replay.calls import PROMPTS, Answers, Wanted, judged, make_calls, wanted
from pytest_sdperf.replay.compare import answer_of, is_indistinct, limits_of, spread_of, with_stale
from pytest_sdperf.units import plural
from pytest_sdperf.values.replays import Replay, Spread

if TYPE_CHECKING:
    import numpy as np

    Arrays = Mapping[str, np.ndarray[Any, Any]]

DEFAULT: Mapping[str, int] = {"cpu": 2, "cuda": 5, "rocm": 5}
FIRST, OTHER = "the first prompt and seed", "another prompt and seed"


def calls_of(runner: CaseRunner) -> tuple[Call, Call]:
    """Return the call that is repeated, which is that of every other test, and the one between."""
    workload = runner.case.workload
    first = Call(FIRST, workload, PROMPTS[:1] * workload.batch_size)
    return first, Call(OTHER, workload, PROMPTS[1:2] * workload.batch_size, seed=1)


def repeat(runner: CaseRunner, *, repeats: int) -> Replay:
    """Call a loaded case equally several times, once otherwise, and once more; and once in each of several processes.

    Args:
        runner: The case.
        repeats: Equal calls in one process, and processes; two or more.

    Raises:
        NoReferenceError: There is nothing to compare with.
        SdperfError: The engine, or torch, could not run.
    """
    asked = calls_of(runner)
    first, other = asked
    torch = wanted(runner, asked)
    found = make_calls(runner, [*[first] * repeats, other, first])
    processes = [found.outputs[0], runner.outputs(), *(runner.run() for _ in range(repeats - 2))]
    return judged(runner, asked, torch, lambda torch: _compared(runner, found, processes, torch, repeats=repeats))


def _compared(
    runner: CaseRunner, found: Answers, processes: Sequence[Arrays], torch: Wanted, *, repeats: int
) -> Replay:
    limits = limits_of(torch.exact[0], torch.rough[0], floating=torch.floating)
    answer = answer_of(OTHER, found.outputs[repeats], torch.exact[1], torch.rough[1], floating=torch.floating)
    return Replay(
        check="repeats",
        floating=torch.floating,
        reference=torch.reference,
        by=torch.by,
        exact=runner.workbench.device.kind in runner.engine.repeats_on,
        spreads=tuple(_spreads(found, processes, limits, repeats=repeats)),
        answers=(with_stale(answer, found.outputs[repeats], found.outputs[0], limits, call=FIRST),),
        overwritten=found.overwritten,
        indistinct=is_indistinct(torch.exact[0], torch.exact[1], limits),
        prepared=found.prepared_by(1),
    )


def _spreads(
    found: Answers, processes: Sequence[Arrays], limits: Mapping[str, float], *, repeats: int
) -> Iterator[Spread]:
    yield spread_of(plural(repeats, "equal call"), found.outputs[:repeats], limits)
    yield spread_of("the first again, after another", [found.outputs[0], found.outputs[-1]], limits)
    yield spread_of(plural(len(processes), "process", "processes"), processes, limits)
