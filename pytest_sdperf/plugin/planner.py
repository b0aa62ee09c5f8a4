"""pytest's hooks of a run that is only planned: nothing is built, run or measured."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from pytest_sdperf.core.errors import SdperfError
from pytest_sdperf.core.machine.device_choice import describe
from pytest_sdperf.plugin.plan.estimator import Estimator
from pytest_sdperf.plugin.plan.lines import Plan, plan_lines
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
            try:
                outlook = outlook_of(session_of(self._config), session.items)
            except SdperfError as error:
                raise pytest.UsageError(str(error)) from error
            terminal.section("sdperf plan")
            for line in plan_lines(outlook, width=terminal._tw.fullwidth):  # noqa: SLF001 - no public way to ask
                terminal.write_line(line.text, **line.markup)
        return True


def outlook_of(session: Session, items: Sequence[pytest.Item]) -> Plan:
    """Return the plan of the selected tests.

    Raises:
        SdperfError: A file that holds earlier sessions cannot be trusted.
    """
    settings, estimator = session.run.settings, Estimator(session)
    wanted = [one for one in map(wanted_of, items) if one is not None]
    if settings.time_budget_s:
        costs = estimator.within(wanted, settings.time_budget_s)
    else:
        costs = tuple((estimator.cost(one), True) for one in merged(wanted))
    device = estimator.device
    return Plan(
        costs=[cost for cost, _ in costs],
        device=describe(device) if device is not None else f"{settings.gpu}, which is not in this machine",
        folder=settings.cache_dir,
        free_bytes=_free_bytes(settings.cache_dir),
        memory_bytes=estimator.memory_bytes,
        on_gpu=settings.on_gpu,
        skipped=Counter(filter(None, map(reason_of_skip, items))),
        budget_s=settings.time_budget_s,
        beyond=frozenset(number for number, (_, fits) in enumerate(costs) if not fits),
    )


def _free_bytes(folder: Path) -> int | None:
    """Return the room on the disk of a folder that need not exist yet."""
    for place in (folder, *folder.parents):
        if place.exists():
            return shutil.disk_usage(place).free
    return None
