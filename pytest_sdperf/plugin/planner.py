"""pytest's hooks of a run that is only planned: nothing is built, run or measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import pytest

from pytest_sdperf.checks.reporting.columns import INDENT
from pytest_sdperf.checks.reporting.line import Line, labelled, wrapped
from pytest_sdperf.core.errors import SdperfError
from pytest_sdperf.core.files.disk import free_bytes
from pytest_sdperf.core.machine.device_choice import describe
from pytest_sdperf.core.settings import Settings
from pytest_sdperf.core.units import disk_size, duration, plural
from pytest_sdperf.core.values.outcomes import Outcome
from pytest_sdperf.plugin.plan.costs import CaseCost, Costs
from pytest_sdperf.plugin.plan.recorded import Records
from pytest_sdperf.plugin.plan.table import cost_lines
from pytest_sdperf.plugin.plan.wanted import merged, reason_of_skip, wanted_of
from pytest_sdperf.plugin.session import Session, session_of

NAME = "sdperf-planner"


class Planner:
    """Registered under `NAME` instead of the reporter."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        # pytest-xdist looks at these in its own `pytest_configure`, which comes later: no worker has anything to do.
        if config.getoption("dist", "no") != "no":
            config.option.dist, config.option.tx, config.option.numprocesses = "no", [], 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Print the plan and run nothing; where the collection failed, let pytest say so."""
        if session.testsfailed or self._config.option.collectonly:
            return None
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None:
            width = self._config.get_terminal_writer().fullwidth
            try:
                lines = list(plan_lines(session_of(self._config), session.items, width=width))
            except SdperfError as error:
                raise pytest.UsageError(str(error)) from error
            terminal.section("sdperf plan")
            for line in lines:
                terminal.write_line(line.text, **line.markup)
        return True


def plan_lines(session: Session, items: Sequence[pytest.Item], *, width: int) -> Iterator[Line]:
    """Yield the plan of the selected tests.

    Raises:
        SdperfError: A file that holds earlier sessions cannot be trusted.
    """
    settings, costs = session.run.settings, Costs(session, Records.of(session.run))
    device = costs.device
    told = describe(device) if device is not None else f"{settings.gpu}, which is not in this machine"
    yield from labelled("device", told, width=width)
    skipped = Counter(filter(None, map(reason_of_skip, items)))
    found = [costs.of(one) for one in merged(filter(None, map(wanted_of, items)))]
    if found:
        yield Line()
        yield from cost_lines(found, memory="GPU memory" if settings.on_gpu else "memory", width=width)
    else:
        nothing = "nothing would run: every selected test of a case is skipped"
        told = nothing if skipped else "nothing is selected: no selected test is about a case"
        yield from wrapped(told, width=width, styles=("yellow",))
    for text in _beyond(found, session.run.settings):
        yield from wrapped(text, width=width, first=INDENT, rest=INDENT * 2, styles=("red",))
    for reason, count in skipped.items():
        text = f"{plural(count, 'test')} skipped: {reason}"
        yield from wrapped(text, width=width, first=INDENT, rest=INDENT * 2)


def _beyond(costs: Sequence[CaseCost], settings: Settings) -> Iterator[str]:
    """Yield what there is not enough of for these cases, by what is known of them: disk, or time."""
    left_bytes, budget_s = free_bytes(settings.cache_dir), settings.time_budget_s
    if sum(step.size_bytes or 0.0 for cost in costs for step in cost.missing) > left_bytes:
        yield f"{settings.cache_dir} has {disk_size(left_bytes)} left: name another disk with --sdperf-cache-dir"
    if 0 < budget_s < sum(cost.known_s for cost in costs):
        yield f"more than the time budget of {duration(budget_s)}: what comes last is {Outcome.NOT_MEASURED.value}"
