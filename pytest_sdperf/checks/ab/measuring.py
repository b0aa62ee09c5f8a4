"""Measure two cases in turns, A B B A A B B A: whatever the machine does meanwhile, it does to both."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence

from pytest_sdperf.builds.execution.runner import CaseRunner, Run
from pytest_sdperf.checks.pipelines.measure import Recording, Watched, ready
from pytest_sdperf.core.stats.pairs import Pairs, order
from pytest_sdperf.core.units import plural

# So many wait side by side for their turn: four processes.
PAIRS_AT_ONCE = 2


def measure_pairs(
    a: CaseRunner,
    b: CaseRunner,
    *,
    pairs: int,
    say: Callable[[str], None],
    more: Callable[[Pairs], int] = lambda pairs: 0,
    shared: bool = False,
) -> Pairs:
    """Take one sample of each side per pair, each in a fresh process, one after the other.

    A side that cannot be built or loaded, runs out of memory, crashes or hangs ends the measurement with a `Failure`;
    where that happens in the first pair, the other side still has its turn.

    Args:
        a: The side that is compared with.
        b: The side that is judged.
        pairs: How many to begin with.
        say: Prints one line of progress.
        more: Says how many more pairs to measure, of those until now; 0 ends the measurement.
        shared: Whether B loads what was built for A.
    """
    first = Recording(a)
    second = Recording(b, builds=a.builds() if shared else None)
    sides = [_side("side A", first), _side("side B", second)]
    ready(first, second)

    def measured() -> Pairs:
        pythons = (str(a.request.python or ""), str(b.request.python or ""))
        return Pairs(first.measured(), second.measured(), pythons, shared=shared)

    while True:
        take_pairs(sides, "sides A and B", begun=len(first.samples), pairs=pairs, say=say)
        found = measured()
        pairs = 0 if _failed(sides) else more(found)
        if not pairs:
            return found
        say(f"{a.case.model} {a.case.component} is not certain yet: {plural(pairs, 'pair')} more")


@dataclasses.dataclass(frozen=True)
class Side:
    """One of two sides that take turns.

    Attributes:
        name: What it is called.
        watched: What its processes do; both sides may share one.
        start: Starts so many processes, which wait for their turn.
        take: Lets one of them measure.
    """

    name: str
    watched: Watched
    start: Callable[[int], contextlib.AbstractContextManager[Sequence[Run]]]
    take: Callable[[Run], None]


def _side(name: str, recording: Recording) -> Side:
    def start(count: int) -> contextlib.AbstractContextManager[Sequence[Run]]:
        return recording.runner.workers("measure", recording.request, count=count)

    return Side(name, recording, start, recording.take)


def _failed(sides: Sequence[Side]) -> bool:
    return any(side.watched.failure is not None for side in sides)


def take_pairs(sides: Sequence[Side], names: str, *, begun: int, pairs: int, say: Callable[[str], None]) -> None:
    """Let both sides measure in turns, A B B A, each time in a fresh process.

    A side that fails ends it, with a `Failure`; where that happens in the first pair, the other side still has its
    turn.

    Args:
        sides: Both, `ready`.
        names: What they are called together.
        begun: Pairs that were measured before.
        pairs: How many more.
        say: Prints one line of progress.
    """
    case, total = sides[0].watched.runner.case, begun + pairs
    what = f"{case.model} {case.component}"
    for start in range(begun, total, PAIRS_AT_ONCE):
        if start and _failed(sides):
            return
        numbers = range(start, min(start + PAIRS_AT_ONCE, total))
        say(f"starting {plural(2 * len(numbers), 'process', 'processes')} for {what}, {names}")
        with contextlib.ExitStack() as stack:
            waiting = _waiting(sides, stack, count=len(numbers))
            for number in numbers:
                for index in order(number):
                    if index not in waiting or (number and _failed(sides)):
                        continue
                    say(f"measuring {what}: {sides[index].name}, pair {number + 1} of {total}")
                    with sides[index].watched.until_failure():
                        sides[index].take(next(waiting[index]))


def _waiting(sides: Sequence[Side], stack: contextlib.ExitStack, *, count: int) -> dict[int, Iterator[Run]]:
    """Start processes of every side that has not failed."""
    waiting: dict[int, Iterator[Run]] = {}
    for index, side in enumerate(sides):
        if side.watched.failure is None:
            with side.watched.until_failure():
                waiting[index] = iter(stack.enter_context(side.start(count)))
    return waiting
