"""With pytest-xdist each worker measures on a GPU of its own, and one process has the one report.

Real workers of pytest-xdist, on a machine whose NVML is a stand-in with cards that are described here.
"""

from __future__ import annotations

import json
import shlex
import sys
import threading
from pathlib import Path

import pytest
from sample_values import CASE

from pytest_sdperf import cli
from pytest_sdperf.builds.execution.device_lock import DeviceLock
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.core.device import Device
from pytest_sdperf.core.errors import OptionError
from pytest_sdperf.plugin.distribution import check_workers
from pytest_sdperf.plugin.fixtures.measurements import EACH_ITS_OWN
from pytest_sdperf.plugin.recorded import Recorded
from pytest_sdperf.plugin.run_results import Results

XDIST = ["xdist.plugin"]
UNETS = ["--sdperf-gpu=h100", "--sdperf-engine=ort-cuda", "--sdperf-component=unet", "--sdperf-optimization=fp16"]
H100 = "NVIDIA H100 80GB HBM3"
CARDS = """
    import sys
    from devices.fake_pynvml import Card, FakeNvml, Mig

    CARDS = [{cards}]
    sys.modules["pynvml"] = FakeNvml(*CARDS, driver="{driver}")

    from pytest_sdperf.devices.nvml import NvmlProbe

    def pytest_sdperf_register(catalog):
        catalog.add_device_probe(NvmlProbe())
"""
# Each worker says in a file which card it measured on and when; with `together` they wait for each other inside.
MEASURED = """
    import os
    import time
    from pathlib import Path
    from types import SimpleNamespace

    import pytest
    from sample_values import measurement

    from pytest_sdperf.plugin.fixtures import measurements
    from pytest_sdperf.core.machine.device_choice import worker_environment
    from pytest_sdperf.plugin.session import Session, session_of

    def measure(runner, *, processes, say, more):
        card = worker_environment(runner.context.device)["CUDA_VISIBLE_DEVICES"]
        worker = os.environ.get("PYTEST_XDIST_WORKER", "alone")
        with open("log", "a") as log:
            log.write(f"begin {card} {worker}\\n")
        together = int(os.environ.get("TOGETHER", "1"))
        deadline = time.monotonic() + 60
        while len({line.split()[1] for line in Path("log").read_text().splitlines()}) < together:
            assert time.monotonic() < deadline, "nobody measures on the other card at the same time"
            time.sleep(0.02)
        time.sleep(float(os.environ.get("TAKES", "0")))
        with open("log", "a") as log:
            log.write(f"end {card} {worker}\\n")
        return measurement(case=runner.case, source="device")

    @pytest.fixture(autouse=True)
    def played(monkeypatch, request):
        monkeypatch.setattr(measurements, "measure", measure)
        monkeypatch.setattr(measurements, "with_floor", lambda measurement, runner: measurement)
        monkeypatch.setattr(Session, "calibration", lambda self, case: None)

    @pytest.fixture(scope="session")
    def sdperf_runner(sdperf_case, request):
        bench = session_of(request.config).context
        return SimpleNamespace(case=sdperf_case, builds=dict, has_outputs=False, context=bench)
"""
TESTS = """
    def test_speed(bench, runner):
        bench(runner)

    def test_no_gpu(request):
        assert request.config
"""


def card(place, **fields):
    told = {"uuid": f"GPU-{place}", "bus_id": f"00000000:0{place + 1}:00.0", **fields}
    listed = ", ".join(f"{name}={value!r}" for name, value in told.items())
    return f"Card({H100!r}, 81559, {listed})"


TWO = (card(0), card(1))


@pytest.fixture
def machine(pytester, sdperf, monkeypatch):
    """Run the tests on a machine with these cards."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def run(*arguments, cards=TWO, tests=TESTS, together=1, plugins=XDIST, driver="580.159.04"):
        monkeypatch.setenv("TOGETHER", str(together))
        conftest = CARDS.format(cards=", ".join(cards), driver=driver) + MEASURED
        pytester.makeconftest(conftest)
        pytester.makepyfile(test_mine=tests)
        usual = ["--sdperf-state-dir=state", "--sdperf-json=out.json"]
        return sdperf(*UNETS, *usual, *arguments, plugins=plugins)

    return run


@pytest.fixture
def log(pytester):
    return lambda: [line.split() for line in (pytester.path / "log").read_text().splitlines()]


@pytest.fixture
def results(pytester):
    return lambda: json.loads((pytester.path / "out.json").read_text())


def test_two_workers_measure_on_two_cards_at_the_same_time(machine, log, results):
    result = machine("-n2", "--sdperf-batch-size=1,2,4,8", together=2)
    result.assert_outcomes(passed=5)
    cards = {worker: card for _, card, worker in log()}
    assert sorted(cards.values()) == ["GPU-0", "GPU-1"]
    assert [moment for moment, *_ in log()[:2]] == ["begin", "begin"]
    assert f"device     2 of them side by side: {H100} (h100-sxm5-80gb)," in result.outlines
    measured = [report["measurement"] for report in results()["reports"]]
    assert sorted({one["turn"]["position"] for one in measured}) == [0, 1]
    assert all([remark["text"] for remark in one["remarks"]] == [EACH_ITS_OWN] for one in measured)
    assert all(one["turn"]["waited_for"] == "" for one in measured)
    assert "GPU-0" not in json.dumps(results())  # no identifier of a card is stored


@pytest.mark.slow
def test_there_is_one_report_one_baseline_and_one_exit_status(pytester, machine, results):
    result = machine("-n2", "--sdperf-batch-size=1,2", "--sdperf-update-baselines", "--sdperf-baselines=base")
    assert result.ret == 0
    assert result.outlines.count("verdicts of 2 cases: 2 NEW") == 1
    assert sum(line.strip("= ") == "sdperf" for line in result.outlines) == 1
    assert [path.name for path in (pytester.path / "base").iterdir()] == ["h100-sxm5-80gb.json"]
    stored = json.loads((pytester.path / "base" / "h100-sxm5-80gb.json").read_text())
    assert [len(case["sessions"]) for case in stored["cases"].values()] == [1, 1]
    again = machine("-n2", "--sdperf-batch-size=1,2", "--sdperf-baselines=base", "--sdperf-fail-on=unused")
    assert (again.ret, "verdicts of 2 cases: 2 HELD" in again.outlines) == (0, True)
    assert len(results()["reports"]) == 2


@pytest.mark.slow
def test_what_another_worker_built_was_built_by_this_run(pytester, machine):
    tests = """
    import os
    from pathlib import Path

    import pytest

    from pytest_sdperf.plugin.session import session_of

    @pytest.mark.parametrize("number", range(4))
    def test_build(request, number):
        cache = session_of(request.config).cache

        def make(folder):
            (folder / "file").write_text("content")
            with open("built", "a") as log:
                log.write("once\\n")
            return {}

        entry = cache.get_or_make("export-1", make)
        assert entry.now
        Path(f"worker-{os.environ['PYTEST_XDIST_WORKER']}").touch()
    """
    machine("-n2", "--sdperf-cache-dir=cache", "--dist=loadscope", tests=tests).assert_outcomes(passed=4)
    machine("-n2", "--sdperf-cache-dir=cache", "--dist=load", tests=tests.replace("entry.now", "not entry.now"))
    assert (pytester.path / "built").read_text() == "once\n"
    machine("-n2", "--sdperf-cache-dir=new", "--dist=load", tests=tests).assert_outcomes(passed=4)
    assert sorted(path.name for path in pytester.path.glob("worker-*")) == ["worker-gw0", "worker-gw1"]
    assert (pytester.path / "built").read_text() == "once\nonce\n"


@pytest.mark.slow
def test_a_stored_case_that_no_worker_measures_is_unused_for_all_of_them(machine):
    usual = ["-n2", "--sdperf-baselines=base"]
    skipped = """
    import pytest

    def test_speed(bench, runner, case):
        if case.batch_size == 2:
            pytest.skip("not today")
        bench(runner)
    """
    assert machine(*usual, "--sdperf-batch-size=1,2", "--sdperf-update-baselines").ret == 0
    result = machine(*usual, "--sdperf-batch-size=1,2", "--sdperf-fail-on=unused", tests=skipped)
    assert result.ret == 12
    assert sum(line.startswith("UNUSED ") for line in result.outlines) == 1


def test_more_workers_than_cards_are_refused_where_something_measures(machine):
    result = machine("-n3")
    assert result.ret == 4
    message = (
        f"ERROR: 3 workers of pytest-xdist would measure on 2 GPUs ({H100} (h100-sxm5-80gb)): each needs one of its "
        "own. Type -n2, or name only tests that do not measure."
    )
    assert result.outlines.count(message) == 1
    assert "INTERNALERROR" not in result.stdout.str()
    machine("-n3", "-k", "no_gpu").assert_outcomes(passed=1)


@pytest.mark.slow
def test_a_card_that_is_another_machine_is_no_peer(machine):
    result = machine("-n2", cards=(card(0), card(1, power_limit_mw=300_000)))
    assert result.ret == 4
    assert (
        f"ERROR: 2 workers of pytest-xdist would measure on 1 GPU ({H100} (h100-sxm5-80gb)): each needs one of its "
        f"own. Not counted: {H100} (h100-sxm5-80gb), with power_limit_w 300.0 instead of 400.0. Type -n1, or name only "
        "tests that do not measure."
    ) in result.outlines
    assert machine("-n1", cards=(card(0), card(1, power_limit_mw=300_000))).ret == 0


@pytest.mark.slow
def test_parts_of_one_card_are_one_card_and_parts_of_two_are_two(machine, log):
    def parts(place):
        uuids = [f"MIG-{place}{part}" for part in range(2)]
        listed = "".join(f"Mig('3g.40gb', {uuid!r}, 40000, {part}), " for part, uuid in enumerate(uuids))
        return card(place)[:-1] + f", mig_mode=1, migs=({listed}))"

    name = f"{H100} MIG 3g.40gb (h100-sxm5-80gb-mig-3g-40gb)"
    result = machine("-n2", cards=[parts(0)])
    assert result.ret == 4
    assert (
        f"ERROR: 2 workers of pytest-xdist would measure on 1 GPU ({name}): each needs one of its own. Not counted: "
        f"{name}, a part of the same card. Type -n1, or name only tests that do not measure."
    ) in result.outlines
    assert machine("-n2", "--sdperf-batch-size=1,2", cards=[parts(0), parts(1)], together=2).ret == 0
    assert {card for _, card, _ in log()} == {"MIG-00", "MIG-10"}


@pytest.mark.slow
def test_a_worker_that_replaces_a_crashed_one_has_its_card(machine, log):
    crashing = """
    import os
    from pathlib import Path

    import pytest

    @pytest.mark.sdperf(batch_sizes=[1, 2, 4, 8])
    def test_speed(bench, runner, case):
        bench(runner)
        try:
            Path("crashed").touch(exist_ok=False)  # by one of two workers that may be here at the same moment
        except FileExistsError:
            return
        os._exit(1)
    """
    result = machine("-n2", "--dist=load", tests=crashing)
    result.assert_outcomes(passed=3, failed=1)
    cards = {worker: card for _, card, worker in log()}
    assert set(cards.values()) <= {"GPU-0", "GPU-1"}
    begun = [card for moment, card, _ in log() if moment == "begin"]
    assert len(begun) == 4
    for place, (moment, card, worker) in enumerate(log()):
        if moment == "begin":  # nobody else has the card until it is given back
            others = log()[place + 1 :]
            end = next(i for i, entry in enumerate(others) if entry == ["end", card, worker])
            assert ["begin", card] not in [entry[:2] for entry in others[:end]]


@pytest.mark.slow
@pytest.mark.parametrize("way", ["loadgroup", "worksteal"])  # "load" is the usual one, and scopes are groups
def test_ways_of_distributing_that_run_every_test_once_are_fine(machine, way):
    result = machine("-n2", f"--dist={way}", "--sdperf-batch-size=1,2")
    result.assert_outcomes(passed=3)
    assert result.outlines.count("verdicts of 2 cases: 2 NEW") == 1


def test_every_test_in_every_worker_is_refused(machine):
    result = machine("--tx=2*popen", "--dist=each")
    assert result.ret == 4
    assert (
        "ERROR: --dist=each runs every test in each of 2 workers, and a case has one verdict. Type --dist=load, or "
        "leave the option out."
    ) in result.outlines


def test_workers_elsewhere_are_refused():
    handed = {"workercount": 1, "sdperf_dist": "load", "sdperf_elsewhere": True}
    with pytest.raises(OptionError) as caught:
        check_workers(handed)
    assert str(caught.value) == (
        "a worker of pytest-xdist runs on another machine, and a run is judged by the baseline of one. Leave out --tx "
        "and type -n: it starts workers here."
    )
    check_workers({})


@pytest.mark.slow
def test_two_runs_on_one_card_take_turns_and_the_second_says_for_whom_it_waited(pytester, machine, results):
    other = DeviceLock(
        Device("cuda", H100, "h100-sxm5-80gb", uuid="GPU-0"), pytester.path / "state", run="x", say=print
    )
    begun, over = threading.Event(), threading.Event()

    def measure():
        with other.alone("sdxl unet at fp16 on torch"):
            begun.set()
            over.wait(60)

    thread = threading.Thread(target=measure)
    thread.start()
    assert begun.wait(30)
    threading.Timer(20, over.set).start()
    result = machine("-n1", "--sdperf-batch-size=1", "-v", cards=(card(0),))
    thread.join(60)
    assert result.ret == 0
    (turn,) = [report["measurement"]["turn"] for report in results()["reports"]]
    assert turn["waited_s"] > 1
    assert turn["waited_for"].endswith("UTC, for sdxl unet at fp16 on torch")
    told = " ".join(line.strip() for line in result.outlines)
    assert f"for its device: {turn['waited_for']}" in told


@pytest.mark.slow
def test_the_program_that_shows_whether_two_cards_disturb_each_other(pytester, machine, monkeypatch):
    machine("--collect-only", plugins=())  # writes the project
    monkeypatch.setenv("TAKES", "1")
    loaded = ["no:pytest_sdperf.builtins", "pytest_sdperf.plugin", "pytest_sdperf.short_fixtures", "door_toys", *XDIST]
    flags = [word for name in loaded for word in ("-p", name)]
    program = Path(__file__).parents[2] / "benchmarks" / "two_gpus.py"
    cases = ["test_mine.py", *UNETS[1:], "--sdperf-batch-size=1,2"]
    result = pytester.run(sys.executable, program, "--folder=two", "--", *flags, *cases)
    assert result.ret == 0
    assert result.outlines[:3] == [f"{name}: exit status 0" for name in ("alone-0", "alone-1", "at-once")]
    compared = [line for line in result.outlines if line.startswith("GPU ")]
    assert len(compared) == 2
    assert all(": alone 10.0 ms, at once 10.0 ms, 0.0 %: model=sd15 component=unet " in line for line in compared)
    assert {line[:6] for line in compared} == {"GPU 0:", "GPU 1:"}
    assert result.outlines[-1] == "at once against alone: median 0.0 %, worst 0.0 %"


# ------------------------------------------------------------------------- tests that fail and have recorded nothing

FAILS = {
    "a comparison of one's own": """
    def test_mine(runner):
        assert runner.case.batch_size == 0
    """,
    "what comes before the test": """
    @pytest.fixture
    def given(case):
        assert case.batch_size == 0

    def test_mine(given):
        pass
    """,
    "what comes after it": """
    @pytest.fixture
    def given(case):
        yield
        assert case.batch_size == 0

    def test_mine(given):
        pass
    """,
}
MEASURES = """
    import pytest

    def test_speed(bench, runner):
        bench(runner)
"""


def told(result):
    """Return what was printed, as one line."""
    return " ".join(" ".join(result.outlines).split())


@pytest.mark.parametrize("fails", FAILS.values(), ids=FAILS)
def test_a_test_that_fails_refuses_what_was_measured_of_its_build(pytester, machine, results, fails):
    result = machine("--sdperf-update-baselines", "--sdperf-baselines=base", tests=MEASURES + fails, plugins=())
    assert result.ret == 1
    refused = told(result).partition(": refused, test_mine.py::test_mine[")[2]
    assert refused.partition("] failed: ")[2].startswith("assert 1 == 0 ")
    assert not (pytester.path / "base").exists()
    assert not list(pytester.path.glob("state/candidates/*"))
    assert [report["problem"] for report in results()["reports"]] == ["", "assert 1 == 0"]


def test_a_test_that_passes_when_it_is_run_again_refuses_nothing():
    results_of = Results()
    for outcome, sent in (("failed", CaseReport("a", CASE, problem="assert 1 == 0")), ("passed", None)):
        one = pytest.TestReport("a", ("", 0, ""), {}, outcome, None, "call")
        if sent is not None:
            one.sdperf = Recorded(sent, by_verdict=False)
        results_of.add(one)
    assert results_of.reports == []


@pytest.mark.slow
def test_a_worker_that_crashes_in_a_comparison_refuses_what_was_measured(pytester, machine, results):
    crashes = """
    def test_mine(runner):
        import os
        os._exit(1)
    """
    arguments = ("-n1", "--sdperf-update-baselines", "--sdperf-baselines=base")
    result = machine(*arguments, tests=MEASURES + crashes, cards=TWO[:1])
    assert result.ret == 1
    assert "] failed: worker 'gw0' crashed while running 'test_mine.py::test_mine[" in told(result)
    assert not (pytester.path / "base").exists()
    assert results()["reports"][-1]["problem"].startswith("worker 'gw0' crashed")


# ------------------------------------------------------------------------------------------------- another driver


@pytest.mark.slow
def test_after_a_new_driver_a_run_keeps_what_it_measured_and_names_the_command(
    pytester, machine, tmp_path, monkeypatch
):
    def run(*arguments, driver="580.159.04"):
        return machine("--sdperf-baselines=base", *arguments, tests=MEASURES, driver=driver, plugins=())

    assert run("--sdperf-update-baselines").ret == 0
    before = (pytester.path / "base" / "h100-sxm5-80gb.json").read_bytes()
    again = run("--sdperf-update-baselines", driver="590.1")
    assert again.ret == 10
    command = 'sdperf baselines accept --re-anchor --reason="new driver"'
    at = again.outlines.index("next, start anew under this driver:")
    assert again.outlines[at + 1] == command
    assert (pytester.path / "base" / "h100-sxm5-80gb.json").read_bytes() == before
    with monkeypatch.context() as elsewhere:  # the toys have the names of built-ins
        elsewhere.chdir(tmp_path)
        typed = [*shlex.split(command)[1:], f"--baselines={pytester.path}/base", f"--state-dir={pytester.path}/state"]
        assert cli.main(typed) == 0
    assert run(driver="590.1").ret == 0
    assert run().ret == 10
