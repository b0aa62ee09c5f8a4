"""The self-test as it is typed: what it measures, what it keeps, and how it ends."""

from __future__ import annotations

import itertools
import re
from types import SimpleNamespace

import pytest
import scipy.stats  # noqa: F401 - pytester forgets what a run has imported, and numpy cannot be loaded twice
from selftest_scenes import CPU_CASE, QUIET, drawn_run

from pytest_sdperf.builds.execution.runner import CaseRunner
from pytest_sdperf.core import clock
from pytest_sdperf.core.errors import BuildError
from pytest_sdperf.core.settings import Settings
from pytest_sdperf.core.values import Build, Failure, Measurement
from pytest_sdperf.plugin import selftester
from pytest_sdperf.plugin.selftest.measuring import Measured
from pytest_sdperf.plugin.selftest.records import Archive, RuleCounts, SelfTests, file_of, read

FILES = ["--sdperf-cache-dir=cache", "--sdperf-state-dir=state"]
TESTS = "def test_fast(runner, bench): raise AssertionError\ndef test_right(runner, agree): raise AssertionError"


class Machine:
    """Processes whose times are drawn: `noise`, and what becomes of the run after so many of them."""

    def __init__(self):
        self.noise, self.seeds, self.asked = QUIET, itertools.count(1), []
        self.health, self.failure, self.ends_after = (), None, None
        self.process_s, self.blind = 0.0, False

    def measure(self, runner, *, first, going_on):
        self.asked.append((runner.case, first))
        seed, count = next(self.seeds), 0
        while going_on(count, self.process_s):
            count += 4
            clock.wall_s.now += 4 * self.process_s
            broken = self.ends_after is not None and count >= self.ends_after
            run = drawn_run(self.noise, count=count, seed=seed, on_cpu=runner.context.device.kind == "cpu")
            medians = dict.fromkeys(run.medians_s, run.medians_s["0"]) if self.blind else run.medians_s
            measurement = Measurement(
                runner.case,
                (),
                failure=self.failure if broken else None,
                health=self.health if broken else (),
                subject={"onnxruntime": "1.32.0"},
            )
            yield Measured(measurement, medians, run.obtained, run.waited)
            if broken:
                return


@pytest.fixture
def machine(monkeypatch, tmp_path):
    def wall_s():
        return wall_s.now

    wall_s.now = 1e9
    monkeypatch.setattr(clock, "wall_s", wall_s)
    played = Machine()
    build = Build("a-key", "onnx", tmp_path / "model.onnx", "float16")
    monkeypatch.setattr(selftester, "measure_selftest", played.measure)
    monkeypatch.setattr(CaseRunner, "builds", lambda self: {"unet": build})
    return played


@pytest.fixture
def run(pytester, sdperf, machine):
    def start(*arguments, tests=TESTS, plugins=()):
        pytester.makepyfile(test_it=tests)
        return sdperf("--sdperf-selftest", *FILES, *arguments, plugins=plugins)

    return start


def section(result):
    lines = result.outlines
    start = next(number for number, line in enumerate(lines) if line.strip("= ") == "sdperf self-test")
    end = next(number for number, line in enumerate(lines) if number > start and line.startswith("===="))
    return [line for line in lines[start + 1 : end] if line]


def kept(pytester, folder="state"):
    found = read(file_of(pytester.path / folder, "toy-cpu"))
    return list(found.cases.values()) if found else []


def test_sixty_processes_are_judged_and_kept_in_the_state_folder(run, pytester, machine):
    result = run("--sdperf-engine=ort-cpu")
    assert result.ret == 0
    ((case, first),) = machine.asked
    assert (case.component, case.engine, case.optimization, first) == ("unet", "ort-cpu", "fp16", 0)
    lines = section(result)
    assert lines[0] == "device     Toy CPU (toy-cpu)"
    assert lines[1] == "case       sd15-thin unet, ort-cpu at fp16, batch 1, 128x128"
    assert lines[3] == "runs       1 run on 1 day: 60 processes"
    assert any(line.startswith("| A/B in pairs, from 30 %") for line in lines)
    assert lines[-2:] == [
        f"kept in {file_of(pytester.path / 'state', 'toy-cpu')}",
        "PASSED no false alarm, and no goal that is surely missed",
    ]
    (tests,) = kept(pytester)
    assert (tests.runs[0].processes, tests.runs[0].builds) == (60, {"unet": "a-key"})
    assert {row.rule for row in tests.rows} == {"pairs", "stored-2", "stored-5"}
    assert not (pytester.path / "baselines").exists()


def test_typed_again_it_goes_on(run, pytester, machine):
    run("--sdperf-engine=ort-cpu")
    run("--sdperf-engine=ort-cpu")
    result = run("--sdperf-engine=ort-cpu")
    assert "runs       3 runs on 1 day: 60, 60, 60 processes, 180 in all" in section(result)
    assert [first for _, first in machine.asked] == [0, 60, 120]
    assert {row.rule for row in kept(pytester)[0].rows} == {"pairs", "stored-2", "stored-5", "stored-2-other"}


def test_what_was_measured_is_accepted_like_everything_else(run, pytester):
    result = run("--sdperf-engine=ort-cpu", "--sdperf-update-baselines")
    assert section(result)[-2] == f"kept in {file_of(pytester.path / 'baselines', 'toy-cpu')}"
    assert len(kept(pytester, "baselines")) == 1
    assert kept(pytester) == []


def test_a_time_budget_takes_the_place_of_the_number_of_processes(run, pytester, machine):
    machine.process_s = 5.0
    result = run("--sdperf-engine=ort-cpu", "--sdperf-time-budget=10m")
    assert result.ret == 0
    # 600 s, of which 45 are for the report; a process of 5 s has to fit in.
    assert kept(pytester)[0].runs[0].processes == 112
    machine.asked.clear()
    again = run("--sdperf-engine=ort-cpu", "--sdperf-time-budget=30s")
    assert machine.asked == []
    assert "runs       1 run on 1 day: 112 processes" in section(again)


def test_without_time_and_without_earlier_runs_nothing_was_measured(run):
    result = run("--sdperf-engine=ort-cpu", "--sdperf-time-budget=30s")
    assert result.ret == 10
    told = next(line for line in result.outlines if line.startswith("INVALID"))
    assert re.sub(r"measured: \S+ s of", "measured: TIME of", told) == (
        "INVALID Nothing was measured: TIME of a time budget of 30 s are gone, and 45 s are kept for the report. What "
        "was built is in the cache; type it again with more time, for example --sdperf-time-budget=8m."
    )


@pytest.mark.parametrize("budget_s", [60, 75])
def test_where_no_comparison_came_about_nothing_has_passed(run, pytester, machine, budget_s):
    machine.process_s = 5.0
    result = run("--sdperf-engine=ort-cpu", f"--sdperf-time-budget={budget_s}s")
    assert (result.ret, kept(pytester)[0].rows) == (10, ())
    assert section(result)[-1] == (
        "INVALID Nothing was judged: too few processes for a single comparison. Type it again with more time, for "
        "example --sdperf-time-budget=8m, or with fewer processes to a comparison, --sdperf-max-processes=N."
    )


def test_a_false_alarm_is_a_failure(run, machine):
    turns = itertools.cycle([0.01, 0.02, 0.02, 0.01])
    machine.noise = SimpleNamespace(times=lambda draw, count: [next(turns) for _ in range(count)])
    result = run("--sdperf-engine=ort-cpu")
    assert result.ret == 1
    assert not any(line.startswith("PASSED") for line in result.outlines)
    assert (
        "FAILED 10 false alarms in 10 comparisons of one build with itself (A/B in pairs, changes from 30 % on)."
        in result.outlines
    )


def test_an_unfit_machine_is_invalid_and_what_it_measured_is_not_kept(run, pytester, machine):
    machine.health, machine.ends_after = ("The GPU was slowed down while measuring: heat, 2 s.",), 4
    result = run("--sdperf-engine=ort-cpu")
    assert result.ret == 10
    assert (
        "INVALID The machine was not fit to be measured: The GPU was slowed down while measuring: heat, 2 s."
        in result.outlines
    )
    assert kept(pytester) == []


def test_what_was_measured_before_a_crash_counts(run, pytester, machine):
    machine.failure, machine.ends_after = Failure("crash", "the worker ended with exit status 3"), 40
    result = run("--sdperf-engine=ort-cpu")
    assert result.ret == 10
    assert "INVALID The worker ended with exit status 3. It wrote nothing to stderr. [worker-crash]" in result.outlines
    assert kept(pytester)[0].runs[0].processes == 36


def test_a_build_that_fails_is_an_error_of_the_command(run, monkeypatch):
    def builds(self):
        raise BuildError("the export failed")

    monkeypatch.setattr(CaseRunner, "builds", builds)
    result = run("--sdperf-engine=ort-cpu")
    assert result.ret == 4
    assert "ERROR: the export failed" in result.errlines


def test_without_a_test_that_measures_there_is_nothing_to_test(run):
    result = run(tests="def test_right(runner, agree): pass")
    assert result.ret == 4
    assert result.errlines[0] == (
        "ERROR: --sdperf-selftest measures the case of a test, and none is selected that measures on this machine. "
        "Type pytest suites --sdperf-selftest, with --sdperf-engine=NAME for one of your engines."
    )


@pytest.mark.parametrize(
    ("beside", "why"),
    [
        ("--sdperf-ab-engine=torch", "a self-test compares one build with itself"),
        ("--sdperf-json=out.json", "a self-test gives no case a verdict"),
        ("--sdperf-html=out.html", "a self-test gives no case a verdict"),
        ("--sdperf-explain=out.json", "a self-test gives no case a verdict"),
        ("--sdperf-resume", "a self-test gives no case a verdict"),
        ("--sdperf-plan", "what a self-test takes is its time budget"),
        ("sdperf_inprocess=true", "each sample of a self-test comes from a fresh process"),
    ],
)
def test_what_goes_with_no_self_test(run, beside, why):
    result = run(*([beside] if beside.startswith("--") else ["-o", beside]))
    assert result.ret == 4
    assert result.errlines == [
        f"ERROR: --sdperf-selftest and {beside} do not go together: {why}. Leave one of them out.",
        "",
    ]


def test_a_file_that_speaks_of_every_run_is_no_contradiction(run, pytester):
    pytester.makeini("[pytest]\nsdperf_json = out.json\n")
    assert run("--sdperf-engine=ort-cpu").ret == 0
    assert not (pytester.path / "out.json").exists()


def test_processes_of_one_device_are_not_spread(run):
    result = run("-n2", plugins=["xdist.plugin"])
    assert result.ret == 4
    assert (
        "ERROR: --sdperf-selftest and -n do not go together: its processes take turns on one device. Leave -n out."
        in result.errlines
    )


CARD = """
    from door_toys import ToyProbe
    from pytest_sdperf.core.device import Device

    def pytest_sdperf_register(catalog):
        catalog.add_device_probe(ToyProbe(Device("cuda", "Toy GPU", "toy-gpu")))
"""


def test_a_gpu_that_finds_what_it_should(run, pytester):
    pytester.makeconftest(CARD)
    result = run("--sdperf-gpu=toy-gpu", "--sdperf-engine=ort-cuda:cuda_graph=on")
    assert result.ret == 0
    lines = section(result)
    assert lines[:2] == [
        "device     Toy GPU (toy-gpu)",
        "case       sd15 unet, ort-cuda:cuda_graph=on at fp16, batch 1, 512x512",
    ]
    assert any(line.startswith("| A/B in pairs, from 2 %") for line in lines)
    assert not any("changes from" in line for line in lines)


def test_a_gpu_that_does_not_find_what_was_injected_fails(run, pytester, machine):
    machine.blind = True
    pytester.makeconftest(CARD)
    result = run("--sdperf-gpu=toy-gpu", "--sdperf-engine=ort-cuda")
    assert result.ret == 1
    failed = [line for line in result.outlines if line.startswith("FAILED ")]
    assert len(failed) >= 2
    assert failed[0] == (
        "FAILED A slowdown of 3 % was found in 0 of 7 comparisons (A/B in pairs): with 95 % confidence in 41 % of "
        "all at most, and 99 % is the goal."
    )


def kept_before(pytester, case, run, *rows, device="toy-cpu"):
    settings = Settings(baselines=pytester.path / "baselines", state_dir=pytester.path / "state")
    archive = Archive(settings, slug=device, machine={"pool": "default"})
    archive.keep(SelfTests(case=case, runs=(run,), rows=rows))


@pytest.mark.parametrize("other", [(), ["--sdperf-ab-engine=torch"]])
def test_on_a_cpu_the_limit_is_that_of_every_cpu_whatever_an_earlier_version_allowed(sdperf, pytester, other):
    rows = [
        RuleCounts(rule, 0.03, effect, 80, found, 720)
        for rule in ("stored-2-other", "pairs")
        for effect, found in ((0.0, 0), (0.05, 80))
    ]
    kept_before(pytester, CPU_CASE, drawn_run(count=4, on_cpu=True), *rows)
    pytester.makepyfile(
        test_it="""
        def test_it(bench, case, sdperf_session):
            policy = sdperf_session.policy(case)
            assert (policy.on_cpu, policy.latency_effect) == (True, 0.3)
        """
    )
    result = sdperf(*FILES, "--sdperf-engine=ort-cpu", "--sdperf-component=unet", *other)
    assert result.parseoutcomes() == {"passed": 2}
