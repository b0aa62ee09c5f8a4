"""A run that is only planned, as it is typed."""

from __future__ import annotations

import forked_pytest
import pytest
from sample_values import case, session, stored

from pytest_sdperf.acceptance.candidates import State
from pytest_sdperf.baselines.files import to_text
from pytest_sdperf.baselines.stored import Baseline
from pytest_sdperf.builds.cache import Cache
from pytest_sdperf.builds.execution.runner import CaseRunner
from pytest_sdperf.core.values.artifact import Artifact, BuildStep
from pytest_sdperf.plugin import planner
from pytest_sdperf.plugin.plan import recorded
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

case                                             time   disk   memory
sd15-thin-unet-on-torch-at-fp32               unknown   4 MB  unknown
    agreement, speed; to make: weights
sd15-thin-unet-on-ort-cpu-at-fp32             unknown   4 MB  unknown
    agreement, speed; to make: export
sd15-thin-unet-on-ort-cpu-at-fmha             unknown   2 MB  unknown
    agreement, speed; to make: fuse-native
sd15-thin-unet-at-fp32-by-native-from-dynamo  unknown      -        -
    counts; to make: expect
sd15-thin-unet-at-fp32-by-ort-from-dynamo           -      -        -
    counts; as above
sd15-thin-unet-at-fmha-by-native-from-dynamo        -      -        -
    counts; as above
sd15-thin-unet-at-fmha-by-ort-from-dynamo     unknown   2 MB        -
    counts; to make: fuse-ort
in all 7 cases, one step after the other      unknown  12 MB  unknown
    5 steps to make
  unknown: nobody has recorded or counted it; >: some of it
  2 tests skipped: not applicable: torch runs the torch module"""
NOTHING = "device     Toy CPU (toy-cpu)\nnothing is selected: no selected test is about a case"


@pytest.fixture(autouse=True)
def machine(monkeypatch):
    monkeypatch.setattr(Session, "cores", 2)
    monkeypatch.setattr(planner, "free_bytes", lambda folder: 10**12)


# Which of two tests makes what both need depends on which comes first.
IN_ORDER = pytest.mark.skipif(
    pytest.version_tuple < (9, 2), reason="this release of pytest puts tests of the same parameters into another order"
)


@IN_ORDER
def test_the_plan_says_what_each_case_and_all_of_them_cost(plan):
    assert plan(*UNET) == WHOLE_PLAN


@IN_ORDER
def test_workers_of_xdist_have_nothing_to_do_with_a_plan(plan):
    assert plan("-n2", *UNET, plugins=["xdist.plugin"]) == WHOLE_PLAN


def cases(text):
    return [line.split()[0] for line in text.splitlines() if line.startswith("sd15")]


def test_what_is_deselected_is_not_planned(plan):
    assert cases(plan(*UNET, "-k", "test_fast and ort-cpu")) == [
        "sd15-thin-unet-on-ort-cpu-at-fp32",
        "sd15-thin-unet-on-ort-cpu-at-fmha",
    ]
    named = "test_it.py::test_fast[sd15-thin-unet-on-torch-at-fp32]"
    assert cases(plan(*UNET, named)) == ["sd15-thin-unet-on-torch-at-fp32"]


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


def measured(ms=2000.0, *, of, **fields):
    """Return a file that holds one session of a case."""
    made = case(**{"optimization": "fp32", "fuser": "", **of})
    one = session(ms, date="2026-11-20T10:00Z", **fields)
    return to_text(Baseline(machine={}, cases={made.key: stored(one, of=made)}))


A100 = {"model": "sd15", "engine": "ort-cuda", "fuser": "native", "height": 512, "width": 512}


def test_a_plan_for_a_gpu_that_is_elsewhere_tells_what_was_measured_on_such_a_card(plan, pytester, monkeypatch):
    folder = pytester.mkdir("shipped")
    monkeypatch.setattr(recorded, "measured_folder", lambda: folder)
    steps = (BuildStep("weights", 11.0), BuildStep("export", 33.0))
    text = measured(of=A100, source="device", artifacts={"unet": Artifact(1, steps=steps)})
    (folder / "a100.json").write_text(text)
    assert plan("--sdperf-gpu=A100", "--sdperf-engine=ort-cuda", *UNET, "-k", "test_fast") == (
        "device     A100, which is not in this machine\n"
        "\n"
        "case                                         time   disk  GPU memory\n"
        "sd15-unet-on-ort-cuda-at-fp32                74 s   8 MB      500 MB\n"
        "    speed; to make: weights, export; shipped baseline of 2026-11-20\n"
        "sd15-unet-on-ort-cuda-at-fmha             unknown   2 MB     unknown\n"
        "    speed; to make: fuse-native\n"
        "in all 2 cases, one step after the other    >74 s  10 MB     >500 MB\n"
        "    3 steps to make\n"
        "  unknown: nobody has recorded or counted it; >: some of it"
    )


def test_of_a_model_whose_parameters_nobody_counted_the_disk_is_unknown(plan, pytester):
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
    asked = ["--sdperf-model=mine", "--sdperf-engine=torch", "-k", "test_fast", "--sdperf-component=unet"]
    assert plan(*asked).splitlines()[3:] == [
        "mine-unet-on-torch-at-fp32               unknown  unknown  unknown",
        "    speed; to make: weights",
        "in all 1 case, one step after the other  unknown  unknown  unknown",
        "    1 step to make",
        "  unknown: nobody has recorded or counted it; >: some of it",
    ]


def test_what_an_engine_compiles_is_made_once_for_each_case_and_not_again(plan, pytester, monkeypatch):
    pytester.makeconftest(
        """
        from door_toys import ToyEngine

        def pytest_sdperf_register(catalog):
            slow = ToyEngine("slow", consumes="module")
            slow.compiles = True
            catalog.add_engine(slow)
        """
    )
    asked = ["--sdperf-engine=slow", "--sdperf-component=unet", "--sdperf-optimization=fp16", "--sdperf-cache-dir=full"]
    monkeypatch.setattr(CaseRunner, "compilation_keys", lambda runner: ("compile-abc",))

    def first_case():
        return plan(*asked).splitlines()[3:5]

    name = "sd15-thin-unet-on-slow-at-fp16              "
    assert first_case() == [
        f"{name}  unknown   >4 MB  unknown",
        "    agreement, speed; to make: weights, compile",
    ]
    Cache(pytester.path / "full", size_bytes=10**9).get_or_make("compile-abc0123", lambda folder: {})
    assert first_case() == [f"{name}  unknown   4 MB  unknown", "    agreement, speed; to make: weights"]


@pytest.fixture
def measured_here(pytester):
    path = State(pytester.path / "state", pytester.path / "baselines").candidates_of("toy-cpu")
    path.parent.mkdir(parents=True)
    path.write_text(measured(of={"engine": "torch", "exporter": "", "opset": 0, "shapes": ""}))


@pytest.mark.usefixtures("measured_here")
def test_what_earlier_sessions_measured_is_told_with_its_day(plan):
    lines = plan("--sdperf-engine=torch", "--sdperf-component=unet", "--sdperf-processes=5", "-k", "test_fast")
    assert lines.splitlines()[3:5] == [
        "sd15-thin-unet-on-torch-at-fp32          >50 s  4 MB  500 MB",
        "    speed; to make: weights; measured here 2026-11-20",
    ]


@pytest.mark.usefixtures("measured_here")
@pytest.mark.parametrize(("budget", "beyond"), [("49s", True), ("51s", False)])
def test_a_time_budget_is_held_against_what_is_known(plan, budget, beyond):
    told = "  more than the time budget of 49 s: what comes last is NOT MEASURED"
    asked = ["--sdperf-engine=torch", "--sdperf-component=unet", "--sdperf-processes=5"]
    assert (told in plan(*asked, f"--sdperf-time-budget={budget}").splitlines()) == beyond


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
    monkeypatch.setattr(planner, "free_bytes", lambda folder: 3 * 10**6)
    text = " ".join(plan(*UNET).split())
    assert f" {pytester.path}/cache has 3 MB left: name another disk with --sdperf-cache-dir 2 tests" in text


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
    result = forked_pytest.run(pytester, *PLAN)
    assert result.ret == 0
    assert "LOADED []" in result.outlines
