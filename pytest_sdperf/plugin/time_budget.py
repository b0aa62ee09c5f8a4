"""pytest's hooks that keep a run within its time: what says most comes first, and the rest is NOT MEASURED."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Any, TypeVar

import pytest

from pytest_sdperf.cases.purposes import SPEED
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.core import clock, ladder
from pytest_sdperf.core.units import duration
from pytest_sdperf.core.values import Case
from pytest_sdperf.core.values.outcomes import Outcome, Verdict
from pytest_sdperf.plugin.delivery import Recorder
from pytest_sdperf.plugin.plan.costs import CaseCost, Costs
from pytest_sdperf.plugin.plan.recorded import Records
from pytest_sdperf.plugin.plan.wanted import PlannedCase, wanted_of
from pytest_sdperf.plugin.session import session_of

NAME = "sdperf-time-budget"
STARTED = "sdperf_started"  # key of what pytest-xdist hands to its workers


class TimeBudget:
    """Registered under `NAME` where the run has one.

    Attributes:
        started_s: When the run began, in seconds since 1970: of a worker of pytest-xdist, when its controller did.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self.started_s: float = getattr(config, "workerinput", {}).get(STARTED, clock.wall_s())

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker of pytest-xdist when the run began."""
        node.workerinput[STARTED] = self.started_s

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Put first what says most; tests of no case stay in front of them."""
        pairs = [(item, wanted_of(item)) for item in items]
        others = [item for item, wanted in pairs if wanted is None]
        ours = [(item, wanted) for item, wanted in pairs if wanted is not None]
        items[:] = [*others, *by_value(ours, session_of(self._config).run.catalog.ladder)]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Leave a test out where no time is left, or less than it took last time, before anything is built for it."""
        wanted = wanted_of(item)
        if wanted is None:
            return
        left_s, cost = self.left_s(), Costs(session_of(self._config), self._records).of(wanted)
        if cost.known_s <= left_s and (left_s > 0 or cost.whole):
            return  # what was made already takes no time, also where none is left
        run = session_of(self._config).run
        verdict = not_measured(cost, left_s=left_s, budget_s=self._budget_s)
        recorder = Recorder(item, wanted.case)
        recorder.verdicts([verdict])
        recorder.deliver([verdict], Policy.of(run.settings, device_kind=run.device_kind))
        recorder.end()

    def left_s(self) -> float:
        """Return what is left of the time."""
        return max(0.0, self._budget_s - (clock.wall_s() - self.started_s))

    @property
    def _budget_s(self) -> float:
        return session_of(self._config).run.settings.time_budget_s

    @functools.cached_property
    def _records(self) -> Records:
        """What they were before the first test: read once, and not for every test."""
        return Records.of(session_of(self._config).run)


def builds_ahead(config: pytest.Config) -> bool:
    """Whether more may be made before the first test: tests have the second half of a time budget to themselves."""
    budget, budget_s = config.pluginmanager.get_plugin(NAME), session_of(config).run.settings.time_budget_s
    return not isinstance(budget, TimeBudget) or budget.left_s() > budget_s / 2


def not_measured(cost: CaseCost, *, left_s: float, budget_s: float) -> Verdict:
    """Return the verdict on a test for which the rest of a time budget is too short."""
    budget = f"the time budget of {duration(budget_s)}"
    if left_s <= 0:
        sentence = f"Nothing was measured: {budget} is used up."
    else:
        took = f"{'' if cost.whole else 'more than '}{duration(cost.known_s)} ({cost.recorded.source})"
        sentence = f"Nothing was measured: {budget} has {duration(left_s)} left, and this takes {took}."
    return Verdict(Outcome.NOT_MEASURED, "time-budget", sentence, "measurement")


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
