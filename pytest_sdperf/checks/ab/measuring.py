"""Measure two cases in turns, A B B A A B B A: whatever the machine does meanwhile, it does to both."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

from pytest_sdperf.builds.execution.runner import CaseRunner, Run
from pytest_sdperf.checks.pipelines.measure import Recording, ready
from pytest_sdperf.core import progress
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
    sides = [Recording(a), Recording(b, builds=a.builds() if shared else None)]
    ready(*sides)
    pythons = (str(a.request.python or ""), str(b.request.python or ""))
    while True:
        _take(sides, pairs=pairs)
        found = Pairs(sides[0].measured(), sides[1].measured(), pythons, shared=shared)
        pairs = 0 if _failed(sides) else more(found)
        if not pairs:
            return found
        say(f"{a.case.model} {a.case.component} is not certain yet: {plural(pairs, 'pair')} more")


def _failed(sides: Sequence[Recording]) -> bool:
    return any(side.failure is not None for side in sides)


def _take(sides: Sequence[Recording], *, pairs: int) -> None:
    """Let both sides, which are `ready`, measure so many more pairs."""
    case, begun = sides[0].runner.case, len(sides[0].samples)
    what, total = f"{case.model} {case.component}", begun + pairs
    for start in range(begun, total, PAIRS_AT_ONCE):
        if start and _failed(sides):
            return
        numbers = range(start, min(start + PAIRS_AT_ONCE, total))
        with contextlib.ExitStack() as stack:
            with progress.step(
                f"starting {plural(2 * len(numbers), 'process', 'processes')} for {what}, sides A and B"
            ):
                waiting = _waiting(sides, stack, count=len(numbers))
            for number in numbers:
                for index in order(number):
                    if index not in waiting or (number and _failed(sides)):
                        continue
                    now = f"measuring {what}, side {'AB'[index]}, pair {number + 1} of {total}"
                    with sides[index].until_failure(), progress.step(now, like=sides[index].runner.case.key):
                        sides[index].take(next(waiting[index]))


def _waiting(sides: Sequence[Recording], stack: contextlib.ExitStack, *, count: int) -> dict[int, Iterator[Run]]:
    """Start processes of every side that has not failed."""
    waiting: dict[int, Iterator[Run]] = {}
    for index, side in enumerate(sides):
        if side.failure is None:
            with side.until_failure():
                started = side.runner.workers("measure", side.request, count=count)
                waiting[index] = iter(stack.enter_context(started))
    return waiting
