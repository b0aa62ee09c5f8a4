"""What the cache holds for the builds ahead is checked before the first of them, as far as they are made ahead."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from sample_values import case

from pytest_sdperf.core.settings import Settings
from pytest_sdperf.plugin import reporter
from pytest_sdperf.plugin.plan.space import Space
from pytest_sdperf.plugin.preparation import BuildRequest

ONE, TWO = (case(batch_size=size) for size in (1, 2))
NEEDS = [BuildRequest(ONE), BuildRequest(TWO)]


class Cache:
    """Notes in which order it is pruned and checked."""

    size_bytes = 0

    def __init__(self) -> None:
        self.log: list[object] = []

    def info(self) -> SimpleNamespace:
        return SimpleNamespace(size_bytes=10)

    def prune(self, size_bytes, *, spare_recent, spare):
        self.log.append(("prune", size_bytes, spare))

    def check(self, keys, *, threads):
        self.log.append(("check", keys, threads))


@pytest.mark.parametrize(("begin", "before"), [(20.0, []), (5.0, [("prune", 5, frozenset({"weights-1", "export-1"}))])])
def test_what_is_needed_is_checked_once_the_rest_has_gone(monkeypatch, begin, before):
    needed = frozenset({"weights-1", "export-1"})
    space = Space(frozenset({ONE}), 2, 9.0, 9.0, keep_bytes=8.0, begin_bytes=begin, needed=needed)
    monkeypatch.setattr(reporter, "builds_of_run", lambda session: None)
    monkeypatch.setattr(reporter, "space_of", lambda cases, builds, run: space)
    session = SimpleNamespace(run=SimpleNamespace(settings=Settings()), cache=Cache(), cores=3)
    assert reporter.what_fits(session, NEEDS) == NEEDS[:1]
    assert session.cache.log == [*before, ("check", needed, 3)]


def test_a_debugger_sees_every_check_at_its_test():
    session = SimpleNamespace(run=SimpleNamespace(settings=Settings(in_process=True)), cache=Cache(), cores=3)
    assert reporter.what_fits(session, NEEDS) == NEEDS
    assert session.cache.log == []
