"""A run that is only planned, as it is typed."""

from __future__ import annotations

import pytest
from sample_values import case, session, stored

from pytest_sdperf.acceptance.candidates import State
from pytest_sdperf.baselines.files import to_text
from pytest_sdperf.baselines.stored import Baseline
from pytest_sdperf.builds.cache import Cache
from pytest_sdperf.builds.execution.runner import CaseRunner
from pytest_sdperf.plugin import planner
from pytest_sdperf.plugin.session import Session

PLAN = ["--sdperf-plan", "--sdperf-cache-dir=cache", "--sdperf-state-dir=state"]
TESTS = """
    def test_right(runner, agree): raise AssertionError
    def test_fast(runner, bench): raise AssertionError
    def test_fused(build, expected_counts): raise AssertionError
"""


@pytest.fixture
def plan(pytester, sdperf):
    def lines(*arguments, tests=TESTS, plugins=(), status=0):
        pytester.makepyfile(test_it=tests)
        result = sdperf(*PLAN, *arguments, plugins=plugins)
        assert result.ret == status
        start = next(number for number, line in enumerate(result.outlines) if line.strip("= ") == "sdperf plan")
        rest = result.outlines[start + 1 :]
        end = next(number for number, line in enumerate(rest) if line.startswith("====="))
        assert not (pytester.path / "cache").exists()
        return "\n".join(rest[:end]).strip()

    return lines


UNET = ["--sdperf-component=unet", "--sdperf-optimization=fp32,fmha"]
WHOLE_PLAN = """\
device     Toy CPU (toy-cpu)

case                             time         disk       memory  builds
sd15-thin-unet-on-torch-at-fp32
  agreement, speed           ~3.7 min     ~4.00 GB            -  to make: weights
sd15-thin-unet-on-ort-cpu-at-fp32
  agreement, speed           ~3.6 min     ~4.00 GB            -  to make: export
sd15-thin-unet-on-ort-cpu-at-fmha
  agreement, speed           ~2.8 min     ~2.00 GB            -  to make: fuse-native
sd15-thin-unet-at-fp32-by-native-from-dynamo
  counts                        ~10 s            -            -  to make: expect
sd15-thin-unet-at-fp32-by-ort-from-dynamo
  counts                            -            -            -  as above
sd15-thin-unet-at-fmha-by-native-from-dynamo
  counts                            -            -            -  as above
sd15-thin-unet-at-fmha-by-ort-from-dynamo
  counts                     ~3.5 min     ~2.00 GB            -  to make: fuse-ort

in all 7 cases, one step after the other
  building    5 steps, ~5.3 min, ~12.0 GB of disk
  running     ~8.5 min
  together    ~13.8 min
  2 tests skipped: not applicable: torch runs the torch module
  ~ estimated, at least in part, from the size of the model and the device;
    expect a factor of two"""
NOTHING = "device     Toy CPU (toy-cpu)\nnothing is selected: no selected test is about a case"


@pytest.fixture(autouse=True)
def machine(monkeypatch):
    monkeypatch.setattr(Session, "cores", 2)
    monkeypatch.setattr(planner, "_free_bytes", lambda folder: 10**12)


# Which of two tests makes what both need depends on which comes first.
IN_ORDER = pytest.mark.skipif(
    pytest.version_tuple < (9, 2), reason="this release of pytest puts tests of the same parameters into another order"
)


@IN_ORDER
def test_the_plan_says_what_each_case_and_all_of_them_cost(plan):
    assert plan(*UNET) == WHOLE_PLAN


@IN_ORDER
def test_workers_of_xdist_have_nothing_to_do_with_a_plan(plan, monkeypatch):
    text = plan("-n2", "--sdperf-component=unet", "--sdperf-optimization=fp32,fmha", plugins=["xdist.plugin"])
    names = [line for line in WHOLE_PLAN.splitlines() if line.startswith("sd15")]
    assert [line for line in text.splitlines() if line.startswith("sd15")] == names


def test_what_is_deselected_is_not_planned(plan):
    lines = plan(*UNET, "-k", "test_fast and ort-cpu").splitlines()
    assert [line for line in lines if line.startswith("sd15")] == [
        "sd15-thin-unet-on-ort-cpu-at-fp32",
        "sd15-thin-unet-on-ort-cpu-at-fmha",
    ]
    lines = plan(*UNET, "test_it.py::test_fast[sd15-thin-unet-on-torch-at-fp32]").splitlines()
    assert [line for line in lines if line.startswith("sd15")] == ["sd15-thin-unet-on-torch-at-fp32"]


def test_a_plan_of_nothing_says_so(plan):
    assert plan(tests="def test_it(): pass") == NOTHING
    assert plan("-k", "nothing", status=5) == NOTHING  # pytest's own status where no test is left


def test_a_plan_of_skipped_tests_says_why(plan):
    assert plan(
        "--sdperf-engine=torch", "--sdperf-optimization=fmha", "-k", "test_fast", "--sdperf-component=unet"
    ) == (
        "device     Toy CPU (toy-cpu)\n"
        "nothing would run: every selected test of a case is skipped\n"
        "  1 test skipped: not applicable: torch runs the torch module"
    )


def test_a_plan_for_a_gpu_that_is_elsewhere_knows_it_from_its_data_sheet(plan):
    lines = plan("--sdperf-gpu=a100", "--sdperf-engine=ort-cuda", *UNET, "-k", "test_fast").splitlines()
    assert lines[0] == "device     a100, which is not in this machine"
    assert lines[2] == "case                             time         disk   GPU memory  builds"
    assert lines[3:7] == [
        "sd15-unet-on-ort-cuda-at-fp32",
        "  speed                      ~2.0 min     ~8.00 GB    ~5,637 MB  to make: weights, export",
        "sd15-unet-on-ort-cuda-at-fmha",
        "  speed                         ~28 s     ~2.00 GB    ~3,105 MB  to make: fuse-native",
    ]
    assert "  GPU memory  at most ~5,637 MB, of 38,147 MB" in lines


def test_a_model_whose_parameters_nobody_counted_has_no_estimate(plan, pytester):
    pytester.makeconftest(
        """
        from door_toys import ToyModel

        class Unknown(ToyModel):
            def parameters(self, component):
                return None

        def pytest_sdperf_register(catalog):
            catalog.add_model(Unknown("mine", thin=True))
        """
    )
    lines = plan(
        "--sdperf-model=mine", "--sdperf-engine=torch", "-k", "test_fast", "--sdperf-component=unet"
    ).splitlines()
    assert lines[3:] == [
        "mine-unet-on-torch-at-fp32",
        "  speed                             ?            ?            -  to make: weights",
        "",
        "in all 1 case, one step after the other",
        "  building    1 step, ?",
        "  running     ?",
        "  together    ?",
        "  of 1 case nobody can tell the cost (?): it is left out here",
    ]


LOOPS = """
    def test_again(runner, replay): raise AssertionError
    def test_once(runner): raise AssertionError
    def test_drift(runner, drift): raise AssertionError
"""


def test_whatever_runs_costs_what_it_does(plan):
    asked = ["--sdperf-gpu=a100", "--sdperf-engine=ort-cuda", "--sdperf-component=unet", "--sdperf-optimization=fmha"]

    def cost(name, *more):
        line = plan(*asked, *more, "-k", f"test_{name}", tests=LOOPS).splitlines()
        seconds = {"s": 1.0, "min": 60.0, "h": 3600.0}
        (running,) = [text.split() for text in line if text.startswith("  running")]
        return float(running[1].removeprefix("~")) * seconds[running[2]]

    once = cost("once")
    assert cost("again") > 5 * once
    assert cost("again", "-osdperf_repeats=2") < cost("again")
    assert cost("drift") > 2 * once


def test_pictures_cost_a_request_per_prompt_and_those_of_torch_once(plan):
    tests = "def test_seen(runner, pictures): raise AssertionError"
    asked = ["--sdperf-engine=torch,ort-cpu", "--sdperf-component=pipeline", "--sdperf-optimization=fp32"]

    def costs(*more):
        lines = [line.split() for line in plan(*asked, *more, tests=tests).splitlines()]
        seconds = {"s": 1, "min": 60, "h": 3600}
        return [float(line[1].removeprefix("~")) * seconds[line[2]] for line in lines if line[:1] == ["pictures"]]

    first, second = costs("--sdperf-prompts=100")
    assert first > 1.5 * second
    assert costs("--sdperf-prompts=50")[0] < 0.7 * first


def test_an_agreement_costs_three_processes_where_equal_bits_are_not_promised(plan, pytester):
    pytester.makeconftest(
        """
        from door_toys import ToyEngine

        def pytest_sdperf_register(catalog):
            catalog.add_engine(ToyEngine("same", repeats_on=("cpu",)))
            catalog.add_engine(ToyEngine("draws"))
        """
    )
    tests = """
        def test_right(runner, agree): raise AssertionError
        def test_once(runner): raise AssertionError
        def test_drift(runner, drift): raise AssertionError
    """

    def seconds(engine, name, component):
        asked = [f"--sdperf-engine={engine}", f"--sdperf-component={component}", "--sdperf-optimization=fp16"]
        lines = plan(*asked, "-k", f"test_{name}", tests=tests).splitlines()
        (running,) = (line.split() for line in lines if line.startswith("  running"))
        return float(running[1].removeprefix("~")) * {"s": 1, "min": 60}[running[2]]

    def more(name, component="unet"):
        return (seconds("draws", name, component) - seconds("same", name, component)) / seconds(
            "same", "once", component
        )

    assert more("right") == pytest.approx(2, abs=0.4)
    # A whole request is executed once, and so is what a drift compares.
    assert (more("right", "pipeline"), more("drift")) == (0, 0)


SLOW = """
    from door_toys import ToyEngine

    def pytest_sdperf_register(catalog):
        slow = ToyEngine("slow", consumes="module", repeats_on=("cpu",))
        slow.compiles = True
        catalog.add_engine(slow)
"""


def test_what_was_compiled_before_takes_no_time(plan, pytester, monkeypatch):
    pytester.makeconftest(SLOW)
    asked = ["--sdperf-engine=slow", "--sdperf-component=unet", "--sdperf-optimization=fp16", "--sdperf-cache-dir=full"]
    monkeypatch.setattr(CaseRunner, "compilation_keys", lambda runner: ("compile-abc",))

    def seconds():
        (line,) = (line.split() for line in plan(*asked).splitlines() if line.startswith("  agreement"))
        return float(line[2].removeprefix("~")) * {"min": 60, "s": 1}[line[3]]

    before = seconds()
    Cache(pytester.path / "full", size_bytes=10**9).get_or_make("compile-abc0123", lambda folder: {})
    assert before - seconds() == pytest.approx(80, abs=7)


def test_an_engine_that_compiles_does_so_once_for_each_case(plan, pytester):
    pytester.makeconftest(SLOW)
    asked = ["--sdperf-engine=slow,torch", "--sdperf-component=unet", "--sdperf-optimization=fp16"]
    costs = [line.split()[:4] for line in plan(*asked).splitlines() if line.startswith("  agreement")]
    # The first case pays for weights and references too: 32 s and 17 s. The compiler takes 80 s, and not twice.
    assert costs == [["agreement,", "speed", "~4.8", "min"], ["agreement,", "speed", "~2.7", "min"]]


def test_what_earlier_sessions_measured_is_no_estimate(plan, pytester):
    made = case(engine="torch", optimization="fp32", fuser="", exporter="", opset=0, shapes="")
    file = Baseline(machine={}, cases={made.key: stored(session(2000.0, date="2026-11-20T10:00Z"), of=made)})
    path = State(pytester.path / "state", pytester.path / "baselines").candidates_of("toy-cpu")
    path.parent.mkdir(parents=True)
    path.write_text(to_text(file))
    lines = plan("--sdperf-engine=torch", "--sdperf-component=unet", "-k", "test_fast").splitlines()
    assert lines[4] == "  speed                     ~68 s [1]     ~4.00 GB   500 MB [1]  to make: weights"
    assert "  running     36 s [1]" in lines
    assert lines[-1] == "  [1] measured here 2026-11-20"


def test_a_damaged_file_of_candidates_ends_a_plan_with_what_to_do(pytester, sdperf):
    pytester.makepyfile(test_it=TESTS)
    file = State(pytester.path / "state", pytester.path / "baselines").candidates_of("toy-cpu")
    file.parent.mkdir(parents=True)
    file.write_text("{")
    result = sdperf(*PLAN)
    assert result.ret == 4
    assert result.stderr.lines[0] == (
        f"ERROR: baseline file {file} is not valid JSON: line 1, column 2: Expecting property name enclosed in double "
        "quotes. Nothing was written to it. Restore it from version control (git checkout -- toy-cpu.json), or move it "
        "away and record it again with --sdperf-update-baselines."
    )


def test_a_disk_that_is_too_small_is_told(plan, pytester, monkeypatch):
    monkeypatch.setattr(planner, "_free_bytes", lambda folder: 3 * 10**9)
    text = " ".join(plan(*UNET).split())
    assert f"{pytester.path}/cache has 3.00 GB left: name another disk with --sdperf-cache-dir" in text


@IN_ORDER
def test_a_time_budget_is_planned_too(plan):
    lines = plan(*UNET, "--sdperf-time-budget=3m").splitlines()
    names = [line for line in lines if line.startswith("sd15")]
    assert names == [
        "sd15-thin-unet-on-torch-at-fp32",
        "sd15-thin-unet-on-ort-cpu-at-fp32",
        "sd15-thin-unet-on-ort-cpu-at-fmha",
        "sd15-thin-unet-at-fp32-by-native-from-dynamo",
        "sd15-thin-unet-at-fp32-by-ort-from-dynamo",
        "sd15-thin-unet-at-fmha-by-native-from-dynamo",
        "sd15-thin-unet-at-fmha-by-ort-from-dynamo: NOT MEASURED",
        "sd15-thin-unet-on-torch-at-fp32: NOT MEASURED",
        "sd15-thin-unet-on-ort-cpu-at-fmha: NOT MEASURED",
        "sd15-thin-unet-on-ort-cpu-at-fp32: NOT MEASURED",
    ]
    assert "in all 6 cases within 3.0 min, one step after the other" in lines
    assert "  4 tests NOT MEASURED, unless the others take less time" in lines


def test_a_plan_loads_neither_torch_nor_onnxruntime(pytester):
    pytester.makepyfile(
        """
        import sys

        def test_fast(sdperf_runner, sdperf_bench): pass

        def teardown_module(): raise AssertionError
        """
    )
    pytester.makeconftest(
        """
        import sys

        def pytest_unconfigure():
            print("LOADED", sorted({"torch", "onnxruntime", "onnx", "diffusers", "transformers"} & set(sys.modules)))
        """
    )
    result = pytester.runpytest_subprocess(*PLAN)
    assert result.ret == 0
    assert "LOADED []" in result.outlines
