"""Tests that another plugin removed without telling pytest: they are deselected as those of `-k` are, and named."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import pytest

from pytest_sdperf.selection.items import uses_our_case
from pytest_sdperf.units import plural

NAME = "sdperf-removed"
_NAMED = 3


class Removed:
    """Registered under `NAME`; looks at tests that ask for a case alone."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._collected: list[pytest.Item] = []
        self._told: list[pytest.Item] = []
        self._nodeids: tuple[str, ...] = ()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Generator[None, None, None]:
        """Remember what there is before anybody removes something."""
        self._collected = list(filter(uses_our_case, items))
        yield

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
        self._nodeids = tuple(item.nodeid for item in removed)
        if removed:
            self._config.hook.pytest_deselected(items=removed)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Let a worker of pytest-xdist tell its controller, which collects nothing."""
        output = getattr(self._config, "workeroutput", None)
        if output is not None:
            output[NAME] = self._nodeids

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over what was removed in a worker: every worker collects everything."""
        self._nodeids = tuple(getattr(node, "workeroutput", {}).get(NAME, ())) or self._nodeids

    @pytest.hookimpl(tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Name what was removed."""
        if self._nodeids:
            terminalreporter.write_line(told(self._nodeids), yellow=True)


def told(nodeids: Sequence[str]) -> str:
    """Say which tests were removed, at least one."""
    others = len(nodeids) - _NAMED
    listed = ", ".join(nodeids[:_NAMED]) + (f" and {others:,} more" if others > 0 else "")
    return f"narrowed: another plugin removed {plural(len(nodeids), 'test')} without telling pytest: {listed}"
