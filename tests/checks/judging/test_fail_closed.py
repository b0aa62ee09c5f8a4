"""Runs in which something is missing: none of them may look like one that passed."""

from __future__ import annotations

import json

import pytest
import scipy.stats  # noqa: F401 - pytest runs inside this process, which can load numpy only once

from pytest_sdperf import cli
from pytest_sdperf.plugin.removed import told

XDIST = ["xdist.plugin"]
# Measures without a worker process.
PLAYED = """
    from types import SimpleNamespace

    import pytest
    from sample_values import measurement

    from pytest_sdperf.plugin.fixtures import measurements
    from pytest_sdperf.plugin.session import Session

    def measure(runner, **_):
        return measurement(case=runner.case, counts={}, **PEAKS)

    PEAKS = {"first": None, "second": None, "source": ""}

    @pytest.fixture(autouse=True)
    def played(monkeypatch):
        monkeypatch.setattr(measurements, "measure", measure)
        monkeypatch.setattr(Session, "calibration", lambda self, case: None)

    @pytest.fixture(scope="session")
    def sdperf_runner(sdperf_case):
        bench = SimpleNamespace(device=SimpleNamespace(kind="cpu"))
        return SimpleNamespace(case=sdperf_case, builds=dict, has_outputs=False, context=bench)
"""
ONE = """
    import pytest

    @pytest.mark.sdperf(components=["unet"], engines=["torch"], optimizations=["fp32"])
    def test_speed(runner, bench):
        bench(runner)
"""
TWO = f"""{ONE}
    @pytest.mark.sdperf(components=["text_encoder"], engines=["torch"], optimizations=["fp32"])
    def test_text(runner, bench):
        bench(runner)
"""
SKIPPED = """
    import pytest

    @pytest.mark.sdperf(components=["unet"], engines=["torch"], optimizations=["fp32"])
    def test_speed(runner, bench):
        pytest.skip("not today")
"""
KEY = "model=sd15-thin component={} engine=torch optimization=fp32 weights=random-0 batch_size=1 height=128 width=128"
NOTHING = "INVALID nothing was measured: none of 1 selected tests came to it"
FAIL = "--sdperf-fail-on=unused"


@pytest.fixture
def project(pytester, sdperf):
    """A project with a baseline of two cases, and pytest as its user types it."""
    pytester.makeconftest(PLAYED)

    def run(tests, *arguments, plugins=()):
        pytester.makepyfile(test_mine=tests)
        return sdperf("--sdperf-state-dir=state", "-p", "no:cacheprovider", *arguments, plugins=plugins)

    assert run(TWO, "--sdperf-update-baselines").ret == 0
    return run


def unused_of(result):
    return [line for line in result.outlines if line.startswith(("UNUSED", "unused"))]


GONE = (
    f"UNUSED {KEY.format('text_encoder')}: in the baseline, but nothing that these options collect measures it any more"
)


@pytest.mark.parametrize(("arguments", "status"), [([], 0), ([FAIL], 12), (["-o", "sdperf_fail_on=unused"], 12)])
def test_a_test_that_vanished_is_named_and_fails_where_that_is_asked(project, arguments, status):
    result = project(ONE, *arguments)
    assert unused_of(result) == [GONE]
    result.assert_outcomes(passed=1)
    assert result.ret == status


def test_as_long_as_every_stored_case_is_measured_nothing_is_said(project):
    result = project(TWO, FAIL)
    assert (unused_of(result), result.ret) == ([], 0)


@pytest.mark.parametrize(
    "arguments", [["-k", "speed"], ["--deselect=test_mine.py::test_text"], ["test_mine.py::test_speed"]]
)
def test_a_narrowed_run_says_that_nobody_looked(project, arguments):
    result = project(TWO, FAIL, *arguments)
    assert unused_of(result) == ["unused baseline entries were not looked for: this run was narrowed to some tests"]
    result.stdout.fnmatch_lines(["verdicts of 1 case: 1 HELD"])
    assert result.ret == 0


@pytest.mark.parametrize("asked_for_nothing", [False, True])
@pytest.mark.parametrize("taken", [0, 1])
def test_results_without_a_test_that_the_run_collected_are_invalid(project, pytester, asked_for_nothing, taken):
    tests = TWO.replace("bench(runner)\n", "pass\n", 1) if asked_for_nothing else TWO
    assert project(tests, "--sdperf-json=results.json").ret == 0
    gate = ["gate", "results.json", "--gpu=toy-cpu", "--baselines=baselines"]
    assert cli.main(gate) == 0
    data = json.loads((pytester.path / "results.json").read_text(encoding="utf-8"))
    assert len(data["reports"]) == 2
    del data["reports"][taken]
    (pytester.path / "results.json").write_text(json.dumps(data), encoding="utf-8")
    assert cli.main(gate) == 10


# As plugins do that share tests out: some tell pytest what they take away, some do not.
SHARD = """
    import pytest

    @pytest.hookimpl({order})
    def pytest_collection_modifyitems(config, items):
        before = list(items)
        items[:] = [item for item in items if "speed" in item.name]
"""
TELLING = """
        config.hook.pytest_deselected(items=[item for item in before if item not in items])
"""
REMOVED = (
    "narrowed: another plugin removed 1 test without telling pytest: "
    "test_mine.py::test_text[sd15-thin-text_encoder-on-torch-at-fp32]"
)


@pytest.mark.parametrize(
    ("order", "workers"),
    [("", []), ("trylast=True", []), ("tryfirst=True", []), pytest.param("", ["-n2"], marks=pytest.mark.slow)],
)
def test_what_another_plugin_took_away_in_silence_narrows_a_run_as_well(project, pytester, order, workers):
    pytester.makepyfile(shard=SHARD.format(order=order))
    plugins = ["shard", *(XDIST if workers else [])]
    pytester.syspathinsert()
    result = project(TWO, FAIL, *workers, plugins=plugins)
    result.assert_outcomes(passed=1, deselected=0 if workers else 1)
    assert unused_of(result) == ["unused baseline entries were not looked for: this run was narrowed to some tests"]
    assert result.outlines.count(REMOVED) == 1
    assert result.ret == 0


def test_what_a_plugin_takes_away_and_says_is_said_once(project, pytester):
    pytester.makepyfile(shard=SHARD.format(order="") + TELLING)
    pytester.syspathinsert()
    result = project(TWO, FAIL, plugins=["shard"])
    result.assert_outcomes(passed=1, deselected=1)
    assert unused_of(result) == ["unused baseline entries were not looked for: this run was narrowed to some tests"]
    assert not [line for line in result.outlines if line.startswith("narrowed")]


def test_many_that_were_taken_away_are_counted():
    assert told(["a", "b", "c", "d", "e"]) == (
        "narrowed: another plugin removed 5 tests without telling pytest: a, b, c and 2 more"
    )


def test_a_run_of_what_failed_last_says_so_too(project, pytester):
    failing = TWO.replace("bench(runner)\n", "assert bench(runner) is None\n", 1)
    cached = ("-p", "cacheprovider")
    assert project(failing, *cached).ret == 1
    result = project(TWO, "--lf", FAIL, *cached)
    result.assert_outcomes(passed=1)
    assert unused_of(result) == ["unused baseline entries were not looked for: this run was narrowed to some tests"]


def test_a_run_that_stops_at_its_first_failure_says_so_too(project):
    failing = TWO.replace("bench(runner)\n", "assert bench(runner) is None\n", 1)
    result = project(failing, "-x", FAIL)
    assert unused_of(result) == ["unused baseline entries were not looked for: this run ended early"]
    assert result.ret == 1


def test_a_stored_case_whose_test_is_skipped_is_unused(project):
    result = project(TWO.replace("bench(runner)\n", 'pytest.skip("not today")\n', 1), FAIL)
    assert unused_of(result) == [f"UNUSED {KEY.format('unet')}: in the baseline, but its test was skipped: not today"]
    result.assert_outcomes(passed=1, skipped=1)
    assert result.ret == 12


@pytest.mark.parametrize("arguments", [[], ["-n2"]])
def test_a_run_in_which_every_test_was_skipped_is_invalid(project, pytester, arguments):
    result = project(SKIPPED, "--sdperf-json=results.json", *arguments, plugins=XDIST if arguments else ())
    result.assert_outcomes(skipped=1)
    assert NOTHING in result.outlines
    assert result.ret == 10
    course = json.loads((pytester.path / "results.json").read_text(encoding="utf-8"))["summary"]
    assert (course["measured"], course["selected"]) == (False, 1)
    assert course["skipped"] == {KEY.format("unet"): "not today"}


@pytest.mark.slow
def test_with_several_workers_a_vanished_test_is_named_as_well(project):
    result = project(ONE, "-n2", FAIL, plugins=XDIST)
    assert unused_of(result) == [GONE]
    assert result.ret == 12


def test_a_test_that_may_fail_is_no_reason_to_fail_later(project, pytester):
    slow = ONE.replace("@pytest.mark.sdperf", "@pytest.mark.xfail\n    @pytest.mark.sdperf", 1)
    pytester.makeconftest(PLAYED.replace("counts={}", "health=('too hot',), counts={}"))
    result = project(slow, "--sdperf-json=results.json")
    result.assert_outcomes(xfailed=1)
    course = json.loads((pytester.path / "results.json").read_text(encoding="utf-8"))["summary"]
    assert [name.partition("[")[0] for name in course["expected_failures"]] == ["test_mine.py::test_speed"]
    assert result.ret == 0


TABLE = "base/published/mine.json"
ELSEWHERE = ["--sdperf-baselines=base"]


def test_a_damaged_published_table_ends_a_run_before_its_first_test(project, pytester):
    (pytester.path / "base/published").mkdir(parents=True)
    (pytester.path / TABLE).write_text("{")
    result = project(ONE, *ELSEWHERE)
    result.assert_outcomes()
    assert result.ret == 4
    assert _line(result, "ERROR: published table") == (
        f"ERROR: published table {pytester.path / TABLE} is not valid: line 1, column 2: Expecting property name "
        f"enclosed in double quotes. Correct it against its source."
    )


def test_what_was_measured_is_told_though_a_published_table_was_damaged_meanwhile(project, pytester):
    harm = 'from pathlib import Path\n\n        Path("base/published").mkdir(parents=True)'
    damaging = ONE.replace("bench(runner)", f'bench(runner)\n        {harm}\n        Path("{TABLE}").write_text("{{")')
    (pytester.path / "base").mkdir()
    result = project(damaging, *ELSEWHERE)
    result.assert_outcomes(passed=1)
    assert result.ret == 0
    assert _line(result, "no published number") == (
        f"no published number is shown: published table {pytester.path / TABLE} is not valid: line 1, column 2: "
        f"Expecting property name enclosed in double quotes. Correct it against its source."
    )
    assert "verdicts of 1 case: 1 NEW" in result.outlines


def test_a_damaged_baseline_ends_a_run_that_only_names_it_too(project, pytester):
    """The report of a run that compares says how many cases are stored, though it is judged by none."""
    (pytester.path / "base").mkdir()
    (pytester.path / "base" / "toy-cpu.json").write_text("{")
    result = project(ONE.replace("bench", "agree"), *ELSEWHERE)
    result.assert_outcomes()
    assert result.ret == 4
    assert _line(result, "ERROR: baseline file") == (
        f"ERROR: baseline file {pytester.path}/base/toy-cpu.json is not valid JSON: line 1, column 2: Expecting "
        f"property name enclosed in double quotes. Nothing was written to it. Restore it from version control (git "
        f"checkout -- toy-cpu.json), or move it away and record it again with --sdperf-update-baselines."
    )


def _line(result, beginning):
    (line,) = (line for line in (*result.outlines, *result.errlines) if line.startswith(beginning))
    return line
