"""pytest's hooks that keep a run within its time: what says most comes first, and the rest is NOT MEASURED."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.core import clock
from pytest_sdperf.core.units import duration
from pytest_sdperf.core.values.outcomes import Outcome, Verdict
from pytest_sdperf.plugin.delivery import Recorder
from pytest_sdperf.plugin.plan.estimate import Estimate
from pytest_sdperf.plugin.plan.estimator import Estimator
from pytest_sdperf.plugin.plan.value import by_value
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
        """Leave a test out for which the rest of the time is too short, before anything is built for it."""
        wanted = wanted_of(item)
        if wanted is None:
            return
        left_s, cost = self.left_s(), Estimator(session_of(self._config)).cost(wanted)
        needed = cost.seconds or Estimate()
        if needed.value <= left_s and (left_s > 0 or cost.seconds is not None):
            return  # what was made already takes no time, also where none is left
        run = session_of(self._config).run
        verdict = not_measured(needed, left_s=left_s, budget_s=run.settings.time_budget_s)
        recorder = Recorder(item, wanted.case)
        recorder.verdicts([verdict])
        recorder.deliver([verdict], Policy.of(run.settings, device_kind=run.device_kind))
        recorder.end()

    def left_s(self) -> float:
        """Return what is left of the time."""
        budget_s = session_of(self._config).run.settings.time_budget_s
        return max(0.0, budget_s - (clock.wall_s() - self.started_s))


def time_is_left(config: pytest.Config) -> bool:
    """Whether something new may begin."""
    budget = config.pluginmanager.get_plugin(NAME)
    return not isinstance(budget, TimeBudget) or budget.left_s() > 0


def within(config: pytest.Config, items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Return the tests that are expected to come to run: all, where there is no time budget."""
    budget = config.pluginmanager.get_plugin(NAME)
    if not isinstance(budget, TimeBudget):
        return list(items)
    wanted: list[tuple[pytest.Item, PlannedCase]] = []
    for item in items:
        one = wanted_of(item)
        if one is not None:
            wanted.append((item, one))
    costs = Estimator(session_of(config)).within([one for _, one in wanted], budget.left_s())
    return [item for (item, _), (_, fits) in zip(wanted, costs, strict=True) if fits]


def not_measured(needed: Estimate, *, left_s: float, budget_s: float) -> Verdict:
    """Return the verdict on a test for which the rest of a time budget is too short."""
    budget = f"the time budget of {duration(budget_s)}"
    if left_s <= 0:
        sentence = f"Nothing was measured: {budget} is used up."
    else:
        about = "about " if needed.estimated else ""
        sentence = f"Nothing was measured: {budget} has {duration(left_s)} left, and this takes {about}"
        sentence += f"{duration(needed.value)} ({', '.join(needed.sources)})."
    return Verdict(Outcome.NOT_MEASURED, "time-budget", sentence, "measurement")
