"""Tests that another plugin takes away: they are deselected as those of `-k` are, and it is said who did that."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import pytest

from pytest_sdperf.cases.items import uses_our_case
from pytest_sdperf.cases.purposes import measures
from pytest_sdperf.core.units import plural
from pytest_sdperf.plugin import benchmark_bridge

NAME = "sdperf-removed"
_NAMED = 3


class Removed:
    """Registered under `NAME`; looks at tests that ask for a case alone."""

    # Every worker of pytest-xdist collects everything, and its controller nothing: it takes over the lines of a worker.

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._collected: list[pytest.Item] = []
        self._told: list[pytest.Item] = []
        self._lines: list[str] = []

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Generator[None, None, None]:
        """Remember what there is before anybody removes something; leave out what measures, where that is asked."""
        self._collected = list(filter(uses_our_case, items))
        yield
        if benchmark_bridge.skips(self._config):
            left_out = list(filter(measures, items))
            items[:] = [item for item in items if item not in left_out]
            self._config.hook.pytest_deselected(items=left_out)
            if left_out:
                self._lines.append(f"narrowed: --benchmark-skip left out {plural(len(left_out), 'test')} that measure")

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Remember what pytest was told of."""
        self._told.extend(items)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Tell pytest of the rest, so that it counts them and everybody knows that this run was narrowed."""
        known = [*session.items, *self._told]
        # By name, too: what another plugin puts in the place of a test is still that test.
        names, same = {item.nodeid for item in known}, set(map(id, known))
        removed = [item for item in self._collected if item.nodeid not in names and id(item) not in same]
        if removed:
            self._lines.append(told([item.nodeid for item in removed]))
            self._config.hook.pytest_deselected(items=removed)
        gone = len(self._collected) - len(list(filter(uses_our_case, session.items)))
        self._lines += filter(None, [benchmark_bridge.codspeed_told(self._config, gone)])
        if any(map(measures, session.items)):
            self._lines += filter(None, [benchmark_bridge.disabled_told(self._config)])

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Let a worker of pytest-xdist tell its controller, which collects nothing."""
        output = getattr(self._config, "workeroutput", None)
        if output is not None:
            output[NAME] = self._lines

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over what a worker has to say."""
        self._lines = getattr(node, "workeroutput", {}).get(NAME, []) or self._lines

    @pytest.hookimpl(tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say what was taken away."""
        for line in self._lines:
            terminalreporter.write_line(line, yellow=True)


def told(nodeids: Sequence[str]) -> str:
    """Say which tests were removed, at least one."""
    others = len(nodeids) - _NAMED
    listed = ", ".join(nodeids[:_NAMED]) + (f" and {others:,} more" if others > 0 else "")
    return f"narrowed: another plugin removed {plural(len(nodeids), 'test')} without telling pytest: {listed}"
