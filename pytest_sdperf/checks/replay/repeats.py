"""Equal calls, with another one between them: in one process, and in several."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pytest_sdperf.builds.execution.calls import ReplayCall
from pytest_sdperf.builds.execution.runner import CaseRunner
from pytest_sdperf.checks.agreement.tensors import different
from pytest_sdperf.checks.replay.calls import PROMPTS, Answers, ReferenceAnswers, judged, make_calls, wanted
from pytest_sdperf.checks.replay.compare import answer_of, is_indistinct, limits_of, spread_of, with_stale
from pytest_sdperf.core.files.arrays import Arrays
from pytest_sdperf.core.units import plural
from pytest_sdperf.core.values.replays import AnswerSpread, CallAgreement, Replay

DEFAULT: Mapping[str, int] = {"cpu": 2, "cuda": 5, "rocm": 5}
# One that is chosen anew in each process may be the same in two.
FEWEST_PROCESSES = 3
FIRST, OTHER = "the first prompt and seed", "another prompt and seed"


def calls_of(runner: CaseRunner) -> tuple[ReplayCall, ReplayCall]:
    """Return the call that is repeated, which is that of every other test, and the one between."""
    workload = runner.case.workload
    first = ReplayCall(FIRST, workload, PROMPTS[:1] * workload.batch_size)
    return first, ReplayCall(OTHER, workload, PROMPTS[1:2] * workload.batch_size, seed=1)


def repeat(runner: CaseRunner, *, repeats: int) -> Replay:
    """Call a loaded case equally several times, once otherwise, and once more; and once in each of several processes.

    Args:
        runner: The case.
        repeats: Equal calls in one process; two or more. There are as many processes, but `FEWEST_PROCESSES` at least.

    Raises:
        NoReferenceError: There is nothing to compare with.
        SdperfError: The engine, or torch, could not run.
    """
    asked = calls_of(runner)
    first, other = asked
    torch = wanted(runner, asked)
    found = make_calls(runner, [*[first] * repeats, other, first])
    more = max(repeats, FEWEST_PROCESSES) - 2
    processes = [found.outputs[0], runner.outputs(), *(runner.run() for _ in range(more))]
    return judged(runner, asked, torch, lambda torch: _compared(runner, found, processes, torch, repeats=repeats))


def _compared(
    runner: CaseRunner, found: Answers, processes: Sequence[Arrays], torch: ReferenceAnswers, *, repeats: int
) -> Replay:
    limits = limits_of(torch.exact[0], torch.rough[0], dtype=torch.dtype)
    answer = answer_of(OTHER, found.outputs[repeats], torch.exact[1], torch.rough[1], dtype=torch.dtype)
    return Replay(
        check="repeats",
        dtype=torch.dtype,
        reference=torch.reference,
        by=torch.by,
        exact=runner.context.device.kind in runner.engine.repeats_on,
        spreads=tuple(_spreads(found, processes, limits, repeats=repeats)),
        answers=(with_stale(answer, found.outputs[repeats], found.outputs[0], limits, call=FIRST),),
        processes=len(processes),
        kinds=tuple(_kinds(processes, torch, names=list(limits))),
        overwritten=found.overwritten,
        indistinct=is_indistinct(torch.exact[0], torch.exact[1], limits),
        prepared=found.prepared_by(1),
    )


def _kinds(processes: Sequence[Arrays], torch: ReferenceAnswers, *, names: Sequence[str]) -> Iterator[CallAgreement]:
    """Yield the different answers of processes to one call beside torch's; nothing where all of them are equal."""
    groups = different([{name: one[name] for name in names if name in one} for one in processes])
    for group in groups if len(groups) > 1 else ():
        of = f"in {len(group)} of {plural(len(processes), 'process', 'processes')}"
        yield answer_of(of, processes[group[0]], torch.exact[0], torch.rough[0], dtype=torch.dtype)


def _spreads(
    found: Answers, processes: Sequence[Arrays], limits: Mapping[str, float], *, repeats: int
) -> Iterator[AnswerSpread]:
    yield spread_of(plural(repeats, "equal call"), found.outputs[:repeats], limits)
    yield spread_of("the first again, after another", [found.outputs[0], found.outputs[-1]], limits)
    yield spread_of(plural(len(processes), "process", "processes"), processes, limits)
