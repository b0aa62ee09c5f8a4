"""Which test comes first where time is short: what is right before what is fast, and what says most before the rest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import TypeVar

from pytest_sdperf.cases.purposes import SPEED
from pytest_sdperf.core import ladder
from pytest_sdperf.core.values import Case
from pytest_sdperf.plugin.plan.wanted import PlannedCase

T = TypeVar("T")


class Value(IntEnum):
    """What a test is worth, most first."""

    CORRECT = 0  # counts and agreements: the speed of what is wrong is no result
    MAIN_BATCH_LAST_NAME = 1
    MAIN_BATCH = 2
    LAST_NAME = 3
    OTHER = 4


def by_value(wanted: Iterable[tuple[T, PlannedCase]], optimizations: Sequence[str]) -> list[T]:
    """Sort by value; among equals the order stays.

    The main batch size is the one that was named first. The last optimization is the one that holds most, per model,
    component and engine.

    Args:
        wanted: Things and what they are about.
        optimizations: The ladder, lowest optimization first.
    """
    pairs = list(wanted)
    timed = [one.case for _, one in pairs if _is_timed(one)]
    main = timed[0].batch_size if timed else 0
    most: dict[tuple[object, ...], int] = {}
    for case in timed:
        most[_row(case)] = max(most.get(_row(case), 0), _height(case, optimizations))

    def value(pair: tuple[T, PlannedCase]) -> Value:
        one = pair[1]
        if not _is_timed(one):
            return Value.CORRECT
        last = _height(one.case, optimizations) == most[_row(one.case)]
        if one.case.batch_size == main:
            return Value.MAIN_BATCH_LAST_NAME if last else Value.MAIN_BATCH
        return Value.LAST_NAME if last else Value.OTHER

    return [thing for thing, _ in sorted(pairs, key=value)]


def _is_timed(wanted: PlannedCase) -> bool:
    return SPEED in wanted.tests


def _row(case: Case) -> tuple[object, ...]:
    return (case.model, case.component, case.engine, case.engine_options)


def _height(case: Case, optimizations: Sequence[str]) -> int:
    return len(ladder.optimizations(case.optimization, optimizations))
