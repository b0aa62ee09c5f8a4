"""A run whose time is short: what comes first, and what becomes of the rest."""

from __future__ import annotations

import json

import pytest
from sample_values import case

from pytest_sdperf.core import clock
from pytest_sdperf.plugin import reporter
from pytest_sdperf.plugin.plan.costs import CaseCost, Costs
from pytest_sdperf.plugin.plan.recorded import Recorded
from pytest_sdperf.plugin.plan.wanted import PlannedCase
from pytest_sdperf.plugin.time_budget import not_measured

UNET = ["--sdperf-engine=ort-cpu", "--sdperf-component=unet", "--sdperf-optimization=fp32,fp16"]
RECORDED = Recorded(source="measured here 2026-11-28")
FILES = ["--sdperf-cache-dir=cache", "--sdperf-state-dir=state", "--sdperf-json=out.json"]
# Every measurement takes ten minutes of a clock that nothing else moves, and took five when it was recorded.
PLAYED = """
    import os
    from types import SimpleNamespace

    import pytest
    from sample_values import measurement

    from pytest_sdperf.core import clock
    from pytest_sdperf.plugin import time_budget
    from pytest_sdperf.plugin.fixtures import measurements
    from pytest_sdperf.plugin.plan.costs import CaseCost, Costs
    from pytest_sdperf.plugin.plan.recorded import Recorded
    from pytest_sdperf.plugin.session import Session

    def of(self, wanted):
        return CaseCost(wanted, seconds=eval(os.environ["COSTS"]), recorded=Recorded(None, "measured here 2026-11-28"))

    def measure(runner, *, processes, say, more):
        clock.wall_s.now += 600
        return measurement(case=runner.case)

    @pytest.fixture(autouse=True)
    def played(monkeypatch):
        monkeypatch.setattr(measurements, "measure", measure)
        monkeypatch.setattr(Session, "calibration", lambda self, case: None)

    @pytest.fixture
    def sdperf_agree(sdperf_case):
        return lambda runner: None

    @pytest.fixture(scope="session")
    def sdperf_runner(sdperf_case):
        on_cpu = SimpleNamespace(device=SimpleNamespace(kind="cpu"))
        return SimpleNamespace(case=sdperf_case, builds=dict, has_outputs=False, context=on_cpu)

    Costs.of = of
"""
TESTS = """
    def test_fast(runner, bench): bench(runner)
    def test_right(runner, agree): agree(runner)
    def test_other(): pass
"""


@pytest.fixture
def run(pytester, sdperf, monkeypatch):
    def wall_s():
        return wall_s.now

    wall_s.now = clock.wall_s()
    monkeypatch.setattr(clock, "wall_s", wall_s)
    monkeypatch.setattr(Costs, "of", Costs.of)  # put back what the conftest replaces

    def start(*arguments, tests=TESTS, costs=(300.0,)):
        monkeypatch.setenv("COSTS", repr(costs))
        pytester.makeconftest(PLAYED)
        pytester.makepyfile(test_it=tests)
        return sdperf(*UNET, *FILES, "--sdperf-batch-size=4,1", *arguments)

    return start


def ran(result):
    return [line.split()[0].partition("::")[2] for line in result.outlines if " PASSED " in line or " SKIPPED " in line]


def test_what_says_most_comes_first(run):
    result = run("-v", "--sdperf-time-budget=10h")
    name = "sd15-thin-unet-on-ort-cpu-at"
    assert ran(result) == [
        "test_other",
        *(f"test_right[{name}-{rest}]" for rest in ("fp32-batch-4", "fp32", "fp16-batch-4", "fp16")),
        f"test_fast[{name}-fp16-batch-4]",
        f"test_fast[{name}-fp32-batch-4]",
        f"test_fast[{name}-fp16]",
        f"test_fast[{name}-fp32]",
    ]
    assert result.ret == 0


def test_the_rest_is_not_measured_and_said_so(run, pytester):
    result = run("-rs", "--sdperf-time-budget=18m")
    result.assert_outcomes(passed=7, skipped=2)
    assert result.ret == 0
    lines = result.outlines
    start = next(i for i, line in enumerate(lines) if line.startswith("NOT MEASURED"))
    assert lines[start : start + 7] == [
        "NOT MEASURED 2 tests",
        "  test_it.py::test_fast[sd15-thin-unet-on-ort-cpu-at-fp16]",
        "    Nothing was measured: the time budget of 18.0 min is used up.",
        "  test_it.py::test_fast[sd15-thin-unet-on-ort-cpu-at-fp32]",
        "    Nothing was measured: the time budget of 18.0 min is used up.",
        "NEW 2 cases without a baseline; nothing was compared, and results are kept as",
        "  candidates",
    ]
    assert "verdicts of 4 cases: 2 NOT MEASURED, 2 NEW" in lines
    rest = next(i for i, line in enumerate(lines) if line.startswith("next, "))
    assert lines[rest] == "next, measure the rest, and keep 2 measured cases:"
    assert lines[rest + 1].endswith("--sdperf-time-budget=18m --sdperf-resume")
    reports = json.loads((pytester.path / "out.json").read_text())["reports"]
    said = [verdict["outcome"] for report in reports for verdict in report["verdicts"]]
    assert said.count("NOT MEASURED") == 2
    skipped = [line for line in lines if line.startswith("SKIPPED")]
    assert len(skipped) == 1
    assert skipped[0].startswith("SKIPPED [2] ")
    assert skipped[0].endswith(
        "NOT MEASURED: Nothing was measured: the time budget of 18.0 min is used up. [time-budget]"
    )


def test_what_does_not_fit_into_the_rest_is_left_out_before_it_begins(run):
    result = run("-rs", "--sdperf-time-budget=14m")
    result.assert_outcomes(passed=6, skipped=3)
    text = " ".join(" ".join(result.outlines).split())
    assert (
        "Nothing was measured: the time budget of 14.0 min has 4.0 min left, and this takes 5.0 min (measured here "
        "2026-11-28)."
    ) in text


def test_what_was_left_out_is_measured_by_the_next_run_and_nothing_twice(run, pytester):
    run("--sdperf-time-budget=18m")
    result = run("--sdperf-resume")
    assert result.ret == 0
    reports = json.loads((pytester.path / "out.json").read_text())["reports"]
    taken = [bool(report["measurement"]["resumed"]) for report in reports]
    assert taken == [True, False, True, False]
    (file,) = (pytester.path / "state" / "candidates").glob("*/*.json")
    sessions = [len(stored["sessions"]) for stored in json.loads(file.read_text())["cases"].values()]
    assert sessions == [1, 1, 1, 1]
    assert list((pytester.path / "state" / "unfinished").rglob("*.json")) == []


def test_a_run_that_must_be_complete_fails(run):
    result = run("--sdperf-time-budget=18m", "--sdperf-fail-on=not-measured")
    result.assert_outcomes(passed=7, errors=2)
    assert result.ret == 11


@pytest.mark.parametrize(
    ("only", "nothing"),
    [
        ("test_fast", "nothing was measured: none of 4 selected tests came to it"),
        ("test_right", "nothing was judged: none of 4 selected tests came to a verdict"),
    ],
)
def test_a_budget_without_room_for_anything_is_no_success(run, only, nothing):
    result = run("--sdperf-time-budget=1s", "-k", only)
    result.assert_outcomes(skipped=4, deselected=5)
    assert result.ret == 10
    lines = result.outlines
    assert f"INVALID {nothing}" in lines
    place = lines.index("next, see what the rest needs:")
    assert lines[place + 1].endswith(f"--sdperf-time-budget=1s -k {only} --sdperf-plan")


def test_what_is_made_already_takes_no_time_also_when_none_is_left(run):
    late = """
        from pytest_sdperf.core import clock

        def test_right(runner, agree):
            agree(runner)
            clock.wall_s.now += 60
    """
    result = run("-v", "--sdperf-time-budget=1s", tests=late, costs=())
    result.assert_outcomes(passed=4)
    assert result.ret == 0
    run("-v", "--sdperf-time-budget=1s", tests=late, costs=(None,)).assert_outcomes(passed=1, skipped=3)


def test_what_nobody_has_recorded_begins_while_there_is_time(run):
    run("--sdperf-time-budget=18m", costs=(None,)).assert_outcomes(passed=7, skipped=2)


@pytest.mark.parametrize(("budget", "goes_on"), [([], [True] * 3), (["--sdperf-time-budget=20m"], [True, True, False])])
def test_builds_are_made_ahead_for_half_of_the_time(run, monkeypatch, budget, goes_on):
    asked = []

    def prepare(session, needs, *, going_on):
        for minutes in (0, 9, 1):
            clock.wall_s.now += 60 * minutes
            asked.append((len(needs), going_on()))

    monkeypatch.setattr(reporter, "prepare", prepare)
    run(*budget)
    assert asked == [(8, one) for one in goes_on]


def test_without_a_budget_the_order_stays(run):
    result = run("-v")
    assert ran(result)[0].startswith("test_fast")
    result.assert_outcomes(passed=9)


def test_workers_of_xdist_count_from_the_start_of_the_run(pytester, sdperf):
    pytester.makeconftest("def pytest_configure_node(node): node.workerinput['sdperf_started'] = 1000.0")
    pytester.makepyfile(test_it="def test_fast(runner): raise AssertionError")
    result = sdperf("-n1", *UNET, *FILES, "--sdperf-time-budget=1h", plugins=["xdist.plugin"])
    result.assert_outcomes(skipped=2)
    assert result.ret == 10


@pytest.mark.parametrize(
    ("seconds", "left_s", "sentence"),
    [
        ((400.0,), 0.0, "Nothing was measured: the time budget of 20.0 min is used up."),
        (
            (400.0,),
            60.0,
            (
                "Nothing was measured: the time budget of 20.0 min has 60 s left, and this takes 6.7 min (measured "
                "here 2026-11-28)."
            ),
        ),
        (
            (100.0, None, 300.0),
            60.0,
            (
                "Nothing was measured: the time budget of 20.0 min has 60 s left, and this takes more than 6.7 min "
                "(measured here 2026-11-28)."
            ),
        ),
    ],
)
def test_a_verdict_says_what_is_left_and_what_is_needed(seconds, left_s, sentence):
    cost = CaseCost(PlannedCase("id", case(), ("speed",)), seconds=seconds, recorded=RECORDED)
    verdict = not_measured(cost, left_s=left_s, budget_s=1200.0)
    assert (verdict.outcome.value, verdict.code, verdict.sentence) == ("NOT MEASURED", "time-budget", sentence)
