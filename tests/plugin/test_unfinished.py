"""What an interrupted run leaves, and when the next one takes it."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
from pathlib import Path

import pytest
from door_toys import toy_catalog
from hypothesis import given
from hypothesis import strategies as st
from sample_values import CASE, case, failed, measurement, samples

from pytest_sdperf.checks.pipelines.measure import COMPONENT_PLAN, PIPELINE_PLAN
from pytest_sdperf.core import clock
from pytest_sdperf.core.settings import EngineRequest, Settings
from pytest_sdperf.core.values import Build
from pytest_sdperf.plugin import unfinished
from pytest_sdperf.plugin.unfinished import RESUMABLE_S, Unfinished, conditions_of

HERE = {"machine": "a", "build": "b"}
UNET = ["--sdperf-engine=ort-cpu", "--sdperf-component=unet", "--sdperf-batch-size=1,2"]
FILES = ["--sdperf-cache-dir=cache", "--sdperf-state-dir=state", "--sdperf-json=out.json"]
# Measurements that say in a file which case they are of; one of them is interrupted if the environment names it.
PLAYED = """
    import os
    from types import SimpleNamespace

    import pytest
    from sample_values import measurement

    from pytest_sdperf.plugin.fixtures import measurements
    from pytest_sdperf.plugin.session import Session

    def measure(runner, *, processes, say, more):
        name = f"{runner.case.optimization}-{runner.case.batch_size}"
        with open("log", "a") as log:
            log.write(name + "\\n")
        if name == os.environ.get("INTERRUPTED"):
            raise KeyboardInterrupt
        return measurement(10.123456789, 10.2, 10.3, case=runner.case)

    @pytest.fixture(autouse=True)
    def played(monkeypatch):
        monkeypatch.setattr(measurements, "measure", measure)
        monkeypatch.setattr(Session, "calibration", lambda self, case: None)

    @pytest.fixture(scope="session")
    def sdperf_runner(sdperf_case):
        on_cpu = SimpleNamespace(device=SimpleNamespace(kind="cpu"))
        return SimpleNamespace(case=sdperf_case, builds=dict, has_outputs=False, context=on_cpu)
"""
ALL = ["fp32-1", "fp32-2", "fp16-1", "fp16-2"]


def later(folder, **changes):
    """The same folder as the next run sees it."""
    found = Unfinished(folder)
    found._began_s = clock.wall_s() + 1 + changes.get("seconds", 0)
    return found


def test_what_was_kept_is_found_by_the_next_run_under_the_same_conditions(tmp_path):
    measured = measurement(10.0, 10.5, 11.0)
    assert Unfinished(tmp_path).keep(measured, HERE, processes=3)
    taken, why_not = later(tmp_path).find(CASE, HERE)
    assert why_not == ""
    assert taken.resumed <= clock.today_utc()
    assert dataclasses.replace(taken, resumed="") == measured
    assert later(tmp_path).find(case(engine="torch"), HERE) == (None, "")


def test_what_a_run_measured_itself_is_not_resumed_by_its_next_test(tmp_path):
    this = Unfinished(tmp_path)
    this.keep(measurement(), HERE, processes=3)
    assert this.find(CASE, HERE) == (None, "")


@pytest.mark.parametrize(
    ("now", "why_not"),
    [
        ({"machine": "z", "build": "b"}, "another machine"),
        ({"machine": "z", "build": "z"}, "another machine and another build"),
        ({**HERE, "environment": "e"}, "another environment"),
    ],
)
def test_another_condition_is_named(tmp_path, now, why_not):
    Unfinished(tmp_path).keep(measurement(), HERE, processes=3)
    assert later(tmp_path).find(CASE, now) == (None, why_not)


def test_after_twelve_hours_it_is_gone(tmp_path):
    this = Unfinished(tmp_path)
    this.keep(measurement(), HERE, processes=3)
    assert later(tmp_path, seconds=RESUMABLE_S).find(CASE, HERE) == (None, "")
    (file,) = tmp_path.iterdir()
    os.utime(file, (1000, 1000))
    this.keep(measurement(case=case(engine="torch")), HERE, processes=3)
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    ("measured", "kept"),
    [
        (measurement(), True),
        (failed("oom", "no room"), True),
        (failed("crash", "it ended"), False),
        (measurement(health=("hot",)), False),
        (measurement(10.0, 10.0), False),
    ],
)
def test_only_what_is_whole_and_fit_is_kept(tmp_path, measured, kept):
    assert Unfinished(tmp_path).keep(measured, HERE, processes=3) is kept
    assert (later(tmp_path).find(CASE, HERE)[0] is not None) is kept


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"schema": 2}', '{"schema": 1}', '{"schema": 1, "conditions": {"machine": "a", "build": "b"}}'],
)
def test_a_damaged_file_is_measured_again(tmp_path, text):
    Unfinished(tmp_path).keep(measurement(), HERE, processes=3)
    (file,) = tmp_path.iterdir()
    file.write_text(text)
    assert later(tmp_path).find(CASE, HERE) == (None, "its file is damaged")


def test_what_a_run_has_finished_with_is_dropped(tmp_path):
    this = Unfinished(tmp_path)
    this.keep(measurement(), HERE, processes=3)
    assert this.holds(CASE)
    this.drop([CASE, case(engine="torch")])
    assert not this.holds(CASE)


@given(st.lists(st.floats(1e-3, 1e3), min_size=3, max_size=3))
def test_samples_survive_to_the_digits_that_a_baseline_keeps(tmp_path_factory, times_ms):
    folder = tmp_path_factory.mktemp("unfinished")
    Unfinished(folder).keep(measurement(*times_ms), HERE, processes=3)
    taken, _ = later(folder).find(CASE, HERE)
    expected = [one.median_s for one in samples(*times_ms)]
    assert [one.median_s for one in taken.samples] == pytest.approx(expected, rel=1e-6)


def conditions(**changes):
    catalog = toy_catalog()
    given = {
        "request": EngineRequest("ort-cpu", "ort-cpu"),
        "builds": {"unet": Build("key-1", "onnx", "path", "float32")},
        "engine": catalog.engines.get("ort-cpu"),
        "model": catalog.models.get("sd15-thin"),
        "machine": {"cores": 2},
        "plan": COMPONENT_PLAN,
        "settings": Settings(),
        **changes,
    }
    return conditions_of(given.pop("request"), given.pop("builds"), **given)


def test_the_conditions_are_the_same_for_the_same_run(monkeypatch):
    before = conditions()
    monkeypatch.setenv("SSH_AUTH_SOCK", "elsewhere")
    assert conditions() == before


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"machine": {"cores": 4}}, {"machine"}),
        ({"builds": {"unet": Build("key-2", "onnx", "path", "float32")}}, {"build"}),
        ({"settings": Settings(processes=5)}, {"number of processes or calls"}),
        ({"plan": PIPELINE_PLAN}, {"number of processes or calls"}),
        ({"settings": Settings(min_effect=0.5, reason="x")}, set()),
        ({"request": EngineRequest("mine", "ort-cpu", env={"ORT_X": "1"})}, {"environment"}),
        ({"request": EngineRequest("mine", "ort-cpu", env={"MY_NAME": "1"})}, set()),
    ],
)
def test_a_condition_differs_where_its_part_does(changes, names):
    before, after = conditions(), conditions(**changes)
    assert {name for name in before if before[name] != after[name]} == names


def test_another_set_of_packages_is_another_condition(monkeypatch):
    before = conditions()
    monkeypatch.setattr(unfinished, "_installed", lambda python: "['onnxruntime 9']")
    after = conditions()
    assert {name for name in before if before[name] != after[name]} == {"set of installed packages"}


def test_a_variable_that_workers_read_is_a_condition(monkeypatch):
    before = conditions()
    monkeypatch.setenv("OMP_NUM_THREADS", "17")
    assert {name for name, value in conditions().items() if value != before[name]} == {"environment"}


@pytest.fixture
def run(pytester, sdperf, monkeypatch):
    def start(*arguments, interrupted=""):
        monkeypatch.setenv("INTERRUPTED", interrupted)
        pytester.makeconftest(PLAYED)
        pytester.makepyfile(test_it="def test_fast(runner, bench): bench(runner)")
        pytester.path.joinpath("log").write_text("")
        return sdperf(*UNET, *FILES, *arguments)

    return start


@pytest.fixture
def log(pytester):
    return lambda: pytester.path.joinpath("log").read_text().split()


@pytest.fixture
def left(pytester):
    return lambda: list((pytester.path / "state" / "unfinished").rglob("*.json"))


def test_an_interrupted_run_says_how_to_go_on_and_the_next_one_measures_the_rest(run, log, left, pytester):
    result = run(interrupted="fp16-1")
    assert (result.ret, log(), len(left())) == (2, ALL[:3], 2)
    lines = result.outlines
    assert report_of(result)[:5] == [
        "INTERRUPTED: 2 of 4 cases measured; nothing was kept as a candidate; the command",
        "  at the end of this report resumes it, and measures the rest",
        "  left 2 tests:",
        "    test_it.py::test_fast[sd15-thin-unet-on-ort-cpu-at-fp16]",
        "    test_it.py::test_fast[sd15-thin-unet-on-ort-cpu-at-fp16-batch-2]",
    ]
    assert "NEW 2 cases without a baseline; nothing was compared" in lines
    place = next(number for number, line in enumerate(lines) if line.startswith("next, "))
    assert lines[place] == "next, measure the rest, and keep 2 measured cases:"
    assert lines[place + 1].startswith("pytest ")
    assert lines[place + 1].endswith(" --sdperf-resume")

    result = run("--sdperf-resume", "-v")
    assert (result.ret, log(), left()) == (0, ALL[2:], [])
    result.assert_outcomes(passed=4)
    reports = json.loads((pytester.path / "out.json").read_text())["reports"]
    dates = [report["measurement"]["resumed"] for report in reports]
    assert [bool(date) for date in dates] == [True, True, False, False]
    lines = result.outlines
    start = lines.index("RESUMED 2 cases that an interrupted run measured; the others are of now")
    stem = "test_it.py::test_fast[sd15-thin-unet-on-ort-cpu-at-fp32"
    assert lines[start + 1 : start + 3] == [f"  {dates[0]} {stem}]", f"  {dates[1]} {stem}-batch-2]"]
    assert any(line == f"resuming sd15-thin unet at fp32 on ort-cpu, measured {dates[0]}" for line in lines)


def report_of(result):
    """The lines of our report, whose first one says what matters most."""
    start = next(number for number, line in enumerate(result.outlines) if line.strip("=") == " sdperf ")
    return result.outlines[start + 1 :]


def test_an_interrupted_run_that_was_to_accept_says_that_it_accepted_nothing(run, pytester):
    result = run("--sdperf-update-baselines", interrupted="fp32-2")
    assert report_of(result)[:2] == [
        "INTERRUPTED: 1 of 4 cases measured; nothing was accepted; the command at the end",
        "  of this report resumes it, and measures the rest",
    ]
    assert not (pytester.path / "baselines").exists()
    result = run("--sdperf-update-baselines", "-osdperf_inprocess=true", interrupted="fp32-2")
    lines = report_of(result)
    assert lines[:2] == [
        "INTERRUPTED: 1 of 4 cases measured; nothing was accepted; the next run begins",
        "  anew",
    ]
    place = next(number for number, line in enumerate(lines) if line.startswith("next, "))
    assert lines[place] == "next, run it again, to its end:"
    assert lines[place + 1].endswith(" --sdperf-update-baselines -osdperf_inprocess=true")


def test_a_run_that_is_interrupted_in_its_first_test_says_so(run):
    result = run(interrupted="fp32-1")
    stem = "    test_it.py::test_fast[sd15-thin-unet-on-ort-cpu-at-fp"
    assert report_of(result)[:7] == [
        "INTERRUPTED: 0 of 4 cases measured; nothing was kept as a candidate; the next",
        "  run begins anew",
        "  left 4 tests:",
        *(f"{stem}{end}]" for end in ("32", "32-batch-2", "16", "16-batch-2")),
    ]
    assert not any(line.startswith("INVALID") for line in result.outlines)


def test_what_was_not_looked_for_is_said_behind_what_was_found(run):
    run("--sdperf-update-baselines")
    lines = report_of(run(interrupted="fp16-1"))
    assert lines[0].startswith("INTERRUPTED: 2 of 4 cases measured; ")
    place = lines.index("unused baseline entries were not looked for: this run ended early")
    assert [line.partition(":")[0] for line in lines[place - 1 : place + 4]] == [
        "",
        "unused baseline entries were not looked for",
        "",
        "pytest -v adds memory, builds, agreement, fused operators, floors and kernels",
        "next, measure the rest, and keep 2 measured cases",
    ]


def test_without_being_asked_nothing_is_resumed(run, log, left):
    run(interrupted="fp16-1")
    result = run()
    assert (result.ret, log(), left()) == (0, ALL, [])
    assert not any("RESUMED" in line for line in result.outlines)
    hints = [line for line in result.outlines if "--sdperf-resume" in line]
    assert len(hints) == 2
    assert hints[0].startswith("measuring sd15-thin unet at fp32 on ort-cpu, as an interrupted run did 2")
    assert hints[0].endswith("Z: --sdperf-resume keeps that")


def test_what_differs_is_measured_again_and_named(run, log):
    run(interrupted="fp16-1")
    result = run("--sdperf-resume", "--sdperf-pool=rack-3", interrupted="fp32-1")
    assert log() == ["fp32-1"]
    assert (
        "measuring sd15-thin unet at fp32 on ort-cpu again: what an interrupted run left has another machine"
        in result.outlines
    )


def test_a_finished_run_leaves_nothing_to_resume(run, log, left):
    run()
    assert left() == []
    run("--sdperf-resume")
    assert log() == ALL


def test_a_run_that_stops_at_its_first_failure_has_not_finished(run, log, left):
    result = run("--sdperf-fail-on=new", "-x")
    assert (result.ret, log(), len(left())) == (12, ALL[:1], 1)
    run("--sdperf-resume")
    assert (log(), left()) == (ALL[1:], [])


def test_what_was_accepted_is_not_resumed_once_more(run, left):
    run("--sdperf-update-baselines", "--sdperf-fail-on=new", "-x")
    assert left() == []


def test_what_is_measured_in_this_process_is_not_left_to_anybody(run, left):
    run("-osdperf_inprocess=true", interrupted="fp16-1")
    assert left() == []


def test_what_is_measured_in_this_process_takes_nothing_away(run, left):
    run(interrupted="fp16-1")
    run("-osdperf_inprocess=true")
    assert len(left()) == 2


@pytest.mark.parametrize("error", [FileNotFoundError("gone"), subprocess.TimeoutExpired("python", 60)])
def test_an_interpreter_that_does_not_answer_equals_nothing(monkeypatch, error):
    def run(*_, **__):
        raise error

    monkeypatch.setattr(subprocess, "run", run)
    asked = [unfinished._installed.__wrapped__(Path("python")) for _ in range(2)]
    assert asked[0] != asked[1]
