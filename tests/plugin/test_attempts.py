"""Plugins that run a failed test again: a case has one verdict, and the first failure is never lost."""

from __future__ import annotations

import json
from textwrap import dedent

import pytest

from pytest_sdperf.plugin.attempts import AGAIN, NOT_AGAIN

# What pytest-rerunfailures 16.1 does: an option, an ini value and a marker, which the test's own marker outdoes.
RERUNS = """
    import pytest
    from _pytest.runner import runtestprotocol

    def pytest_addoption(parser):
        parser.addoption("--reruns", type=int)
        parser.addoption("--force-reruns", type=int, dest="force_reruns")
        parser.addini("reruns", "how often")

    def pytest_configure(config):
        config.addinivalue_line("markers", "flaky(reruns=1, condition=True): run it again")

    def count(item):
        marker, option = item.get_closest_marker("flaky"), item.config.option
        if option.force_reruns is not None:
            return option.force_reruns
        if marker is not None:
            return marker.kwargs.get("reruns", 1)
        return option.reruns if option.reruns is not None else int(item.config.getini("reruns") or 0)

    def pytest_runtest_protocol(item, nextitem):
        marker = item.get_closest_marker("flaky")
        again = count(item) if marker is None or marker.kwargs.get("condition", True) else 0
        for left in range(again, -1, -1):
            item._initrequest()
            reports = runtestprotocol(item, nextitem=nextitem, log=False)
            failed = [report for report in reports if report.failed]
            if failed and left:
                failed[0].outcome = "rerun"
            for report in reports:
                item.ihook.pytest_runtest_logreport(report=report)
            if not failed:
                break
        return True
"""
# What pytest-retry 1.7 does: the call again, inside of the first report.
RETRIES = """
    import pytest

    def pytest_addoption(parser):
        parser.addoption("--retries", type=int)
        parser.addini("retries", "how often", default=0)

    def pytest_configure(config):
        config.addinivalue_line("markers", "flaky(retries=1, condition=True): run it again")

    def pytest_collection_modifyitems(config, items):
        if config.option.retries or config.getini("retries"):
            for item in items:
                if "flaky" not in item.keywords:
                    item.add_marker(pytest.mark.flaky(retries=1))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(item, call):
        report = yield
        marker = item.get_closest_marker("flaky")
        if report.when == "call" and report.failed and marker and marker.kwargs.get("condition", True):
            item.ihook.pytest_runtest_teardown(item=item, nextitem=pytest.Class.from_parent(item.session, name="X"))
            item._initrequest()
            pytest.CallInfo.from_call(lambda: item.ihook.pytest_runtest_setup(item=item), when="setup")
            again = pytest.CallInfo.from_call(lambda: item.ihook.pytest_runtest_call(item=item), when="call")
            retried = pytest.TestReport.from_item_and_call(item, again)
            report.outcome, report.longrepr = retried.outcome, retried.longrepr
        return report
"""
# Somebody's own, which heeds no marker.
STUBBORN = """
    from _pytest.runner import runtestprotocol

    def pytest_runtest_protocol(item, nextitem):
        first = runtestprotocol(item, nextitem=nextitem, log=False)
        reports = first
        if any(report.failed for report in first):
            item._initrequest()
            reports = runtestprotocol(item, nextitem=nextitem, log=False)
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        return True
"""
# It fails at first and passes from then on.
CONFTEST = """
    import pytest

    @pytest.fixture(scope="session")
    def tries():
        return []
"""
TESTS = """
    import pytest

    @pytest.mark.sdperf(components=["unet"], engines=["torch"], optimizations=["fp32"])
    def test_case(case, tries):
        tries.append(case)
        assert len(tries) > 1, "the first of them"

    def test_other(others=[]):
        others.append(1)
        assert len(others) > 1
"""


@pytest.fixture
def run(pytester, sdperf, monkeypatch):
    """Run a test that fails once, under a plugin that would try it again."""
    monkeypatch.syspath_prepend(pytester.path)

    def again(plugin, *arguments, tests=TESTS, ini="", conftest=CONFTEST):
        pytester.path.joinpath("again_plugin.py").write_text(dedent(plugin))
        pytester.makeconftest(conftest)
        pytester.makepyfile(test_it=tests)
        pytester.makeini(f"[pytest]\n{ini}\n")
        return sdperf(*arguments, "--sdperf-json=results.json", plugins=["again_plugin"])

    return again


MARKED = TESTS.replace("    def test_case", "    @pytest.mark.flaky\n    def test_case")


@pytest.mark.parametrize(
    "wanted",
    [
        (RERUNS, ["--reruns=2"], "", TESTS),
        (RERUNS, [], "reruns = 2", TESTS),
        (RERUNS, ["--force-reruns=2"], "", TESTS),
        (RERUNS, ["--reruns=1"], "", MARKED),
        (RETRIES, ["--retries=1"], "", TESTS),
        (RETRIES, [], "retries = 1", TESTS),
        (RETRIES, ["--retries=1"], "", MARKED),
    ],
)
def test_what_fails_has_failed_and_the_tests_of_others_are_run_again(run, pytester, wanted):
    plugin, arguments, ini, tests = wanted
    result = run(plugin, *arguments, ini=ini, tests=tests)
    counted = result.parseoutcomes()
    assert (counted["failed"], counted["passed"]) == (1, 1)
    assert f"sdperf: {NOT_AGAIN}" in result.outlines
    text = result.stdout.str()
    assert "AssertionError: the first of them" in text
    (report,) = json.loads(pytester.path.joinpath("results.json").read_text())["reports"]
    assert report["problem"] == "the first of them"


def test_whoever_runs_it_again_all_the_same_is_refused_and_what_the_first_run_found_stays(run):
    result = run(STUBBORN)
    result.assert_outcomes(errors=1, passed=1)
    assert AGAIN in result.outlines


@pytest.mark.parametrize("plugin", [RERUNS, RETRIES])
def test_who_asks_for_nothing_hears_nothing(run, plugin):
    result = run(plugin, tests=TESTS.replace("> 1", "> 0"))
    result.assert_outcomes(passed=2)
    assert NOT_AGAIN not in result.stdout.str()


def test_a_test_that_is_exempt_already_is_no_news(run):
    tests = TESTS.replace("    def test_case", "    @pytest.mark.flaky(condition=False)\n    def test_case")
    result = run(RERUNS, "--reruns=2", tests=tests)
    assert result.parseoutcomes()["failed"] == 1
    assert NOT_AGAIN not in result.stdout.str()
