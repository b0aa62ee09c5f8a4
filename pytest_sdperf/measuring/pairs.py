"""Measure two cases in turns, A B B A A B B A: whatever the machine does meanwhile, it does to both."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

from pytest_sdperf.executing.runner import CaseRunner, Run
from pytest_sdperf.measuring.measure import Recording
from pytest_sdperf.stats.pairs import Pairs
from pytest_sdperf.units import plural

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
    sides = (first, Recording(b, builds=a.builds() if shared else None))

    def measured() -> Pairs:
        pythons = (str(a.request.python or ""), str(b.request.python or ""))
        return Pairs(sides[0].measured(), sides[1].measured(), pythons, shared=shared)

    while True:
        total = len(first.samples) + pairs
        while len(first.samples) < total and not _failed(sides):
            _take(sides, (a, b), count=min(PAIRS_AT_ONCE, total - len(first.samples)), total=total, say=say)
        found = measured()
        pairs = 0 if _failed(sides) else more(found)
        if not pairs:
            return found
        say(f"{a.case.model} {a.case.component} is not certain yet: {plural(pairs, 'pair')} more")


def _failed(sides: Sequence[Recording]) -> bool:
    return any(side.failure is not None for side in sides)


def _take(
    sides: Sequence[Recording],
    runners: Sequence[CaseRunner],
    *,
    count: int,
    total: int,
    say: Callable[[str], None],
) -> None:
    """Take samples of `count` pairs, the second of them in the other order."""
    case, begun = runners[0].case, len(sides[0].samples)
    what = f"{case.model} {case.component}"
    say(f"starting {plural(2 * count, 'process', 'processes')} for {what}, sides A and B")
    with contextlib.ExitStack() as stack:
        waiting: dict[int, Iterator[Run]] = {}
        for index, (side, runner) in enumerate(zip(sides, runners, strict=True)):
            with side.until_failure():
                waiting[index] = iter(stack.enter_context(runner.workers("measure", side.arguments, count=count)))
        for number in range(begun, begun + count):
            for index in (0, 1) if number % 2 == 0 else (1, 0):
                if index in waiting and (number == 0 or not _failed(sides)):
                    say(f"measuring {what}: side {'AB'[index]}, pair {number + 1} of {total}")
                    with sides[index].until_failure():
                        sides[index].take(next(waiting[index]))
