"""What the cache holds for the builds ahead is checked before the first of them."""

from __future__ import annotations

from types import SimpleNamespace

from door_toys import toy_catalog
from sample_values import case

from pytest_sdperf.core.errors import BuildError
from pytest_sdperf.core.settings import Settings
from pytest_sdperf.plugin import reporter
from pytest_sdperf.plugin.preparation import BuildRequest

ONE, TWO, BROKEN = (case(model="sd15-thin", engine="", batch_size=size) for size in (1, 2, 3))
NEEDS = [BuildRequest(ONE), BuildRequest(TWO), BuildRequest(BROKEN)]


class Builds:
    """Tells steps of which the cache has some."""

    def of(self, case, engine):
        if case == BROKEN:
            raise BuildError("no such opset")
        held = SimpleNamespace(key=f"export-{case.batch_size}")
        return SimpleNamespace(entry=held), SimpleNamespace(entry=None)


def checked(monkeypatch, settings):
    found = []
    monkeypatch.setattr(reporter, "builds_of_run", lambda session: Builds())
    cache = SimpleNamespace(check=lambda keys, *, threads: found.append((sorted(keys), threads)))
    run = SimpleNamespace(settings=settings, catalog=toy_catalog())
    reporter.check_cached(SimpleNamespace(run=run, cache=cache, cores=3), NEEDS)
    return found


def test_what_is_there_for_any_case_is_checked_side_by_side(monkeypatch):
    assert checked(monkeypatch, Settings()) == [(["export-1", "export-2"], 3)]


def test_a_debugger_sees_every_check_at_its_test(monkeypatch):
    assert checked(monkeypatch, Settings(in_process=True)) == []
