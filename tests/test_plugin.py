from __future__ import annotations

import importlib.util
import json
import os
import shlex
import sys

import pytest
from external_folders import make_unet, write

from pytest_sdperf import cli
from pytest_sdperf.plugin.fixtures.measurements import BESIDE_OTHERS
from pytest_sdperf.report.results import read_results

XDIST = ["xdist.plugin"]
GPU = """
    from door_toys import ToyProbe
    from pytest_sdperf.core.device import Device

    def pytest_sdperf_register(catalog):
        catalog.add_device_probe(ToyProbe(Device("cuda", "NVIDIA A100-SXM4-40GB", "a100-sxm4-40gb", uuid="GPU-1")))
"""
# What the fixtures of a user's test need beyond the case is not the door's business.
BARE = """
    import pytest

    @pytest.fixture
    def sdperf_bench(sdperf_case):
        return sdperf_case

    @pytest.fixture(scope="session")
    def sdperf_build(sdperf_case):
        return sdperf_case
"""
# Two cards that two probes find. The first process sees the first one at work, its workers the second one.
TWO_CARDS = """
    import os
    from door_toys import ToyProbe
    from pytest_sdperf.core.device import Device, Health

    class Probe(ToyProbe):
        def __init__(self, name, uuid, *, worker):
            super().__init__(Device("cuda", "NVIDIA A100-SXM4-40GB", "a100-sxm4-40gb", uuid=uuid))
            self.name, self._worker = name, worker

        def health(self, device):
            assert device in self.find()
            return Health(other_processes=int(("PYTEST_XDIST_WORKER" in os.environ) == self._worker))

    def pytest_sdperf_register(catalog):
        catalog.add_device_probe(Probe("first", "GPU-1", worker=False))
        catalog.add_device_probe(Probe("second", "GPU-2", worker=True))
"""
# What pytest before 9.1 does with each plugin of a run.
HASHING = """
    def pytest_collection_finish(session):
        plugins = session.config.pluginmanager.list_name_plugin()
        assert all(isinstance(hash(plugin), int) for name, plugin in plugins)
        print("hashed:", sorted(name for name, plugin in plugins if name.startswith("sdperf")))
"""
UNETS = ["--sdperf-engine=ort-cpu", "--sdperf-component=unet", "--sdperf-batch-size=1,2"]
# A measurement that takes a while and says in a file when.
MEASURED = """
    import os
    import time
    from types import SimpleNamespace

    import pytest
    from sample_values import measurement

    from pytest_sdperf.plugin.fixtures import measurements
    from pytest_sdperf.plugin.session import Session

    def tell(moment):
        with open("log", "a") as log:
            log.write(f"{moment} {os.environ.get('PYTEST_XDIST_WORKER')}\\n")

    def measure(runner, *, processes, say, more):
        tell("begin")
        time.sleep(0.2)
        tell("end")
        return measurement(case=runner.case)

    @pytest.fixture(autouse=True)
    def played(monkeypatch):
        monkeypatch.setattr(measurements, "measure", measure)
        monkeypatch.setattr(Session, "calibration", lambda self, case: None)

    @pytest.fixture(scope="session")
    def sdperf_runner(sdperf_case):
        bench = SimpleNamespace(device=SimpleNamespace(kind="cpu"))
        return SimpleNamespace(case=sdperf_case, builds=dict, has_outputs=False, context=bench)
"""
NO_GPU = (
    "GPU 'a100' was asked for, but no device of this machine answers to it.\n"
    "Leave the option out to run on the CPU, and with it engines that run on GPUs only."
)


def test_a_test_that_asks_for_our_fixtures_gets_one_parameter_per_case(pytester, sdperf):
    pytester.makeconftest(BARE)
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.sdperf(components="unet", batch_sizes=[1, 4])
        def test_step(bench):
            assert bench.component == "unet"
        """
    )
    result = sdperf("--sdperf-engine=ort-cpu", "-v")
    result.assert_outcomes(passed=4)
    names = [line.split(" ")[0] for line in result.outlines if "PASSED" in line]
    stem = "test_a_test_that_asks_for_our_fixtures_gets_one_parameter_per_case.py::test_step"
    assert names == [
        f"{stem}[sd15-thin-unet-on-ort-cpu-at-fp32]",
        f"{stem}[sd15-thin-unet-on-ort-cpu-at-fp32-batch-4]",
        f"{stem}[sd15-thin-unet-on-ort-cpu-at-fp16]",
        f"{stem}[sd15-thin-unet-on-ort-cpu-at-fp16-batch-4]",
    ]


def test_every_plugin_of_a_run_is_hashable(pytester, sdperf):
    pytester.makeconftest(HASHING)
    pytester.makepyfile("def test_of_a_stranger(): pass")
    result = sdperf("-s", *UNETS)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*hashed: *'sdperf-run', *'sdperf-session', *"])


def test_every_test_that_will_measure_counts_as_a_case_of_the_run(pytester, sdperf):
    pytester.makeconftest(BARE)
    pytester.makepyfile(
        """
        def test_step(bench, case, sdperf_session):
            assert sdperf_session.policy(case).cases == 2

        def test_build(build): pass
        """
    )
    result = sdperf(*UNETS, "--sdperf-optimization=fp32", "-k", "test_step")
    result.assert_outcomes(passed=2, deselected=4)


def test_what_cannot_run_here_is_skipped_with_the_reason(pytester, sdperf):
    pytester.makeconftest(BARE)
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.sdperf(components="unet", engines=["torch"], optimizations=["fp32", "fmha"])
        def test_step(bench): pass

        @pytest.mark.sdperf(models="sdxl")
        def test_other(bench): pass
        """
    )
    result = sdperf("-rs", "--sdperf-model=sd15-thin")
    result.assert_outcomes(passed=1, skipped=2)
    # Which comes first depends on the release of pytest.
    result.stdout.fnmatch_lines(["SKIPPED*: not applicable: torch runs the torch module"])
    result.stdout.fnmatch_lines(["SKIPPED*: this test is for model sdxl, the command line names sd15-thin"])


def test_a_bad_marker_is_a_collection_error_of_one_line(pytester, sdperf):
    pytester.makepyfile(
        test_it="""
        import pytest

        @pytest.mark.sdperf(model="sd15")
        def test_step(bench): pass
        """
    )
    result = sdperf()
    assert result.ret == 2
    message = (
        "test_it.py::test_step: unknown argument of the marker sdperf: 'model'. Did you mean 'models'? Known: "
        "batch_sizes, components, engines, models, optimizations, reason, shapes, tolerances."
    )
    start = next(number for number, line in enumerate(result.outlines) if line.strip("= ") == "ERRORS")
    assert result.outlines[start + 1].strip("_ ") == "ERROR collecting test_it.py"
    assert result.outlines[start + 2] == message
    assert result.outlines[start + 3].strip("= ") == "short test summary info"


def test_a_missing_device_stops_the_run_before_its_first_test(pytester, sdperf):
    pytester.makeconftest(BARE)
    pytester.makepyfile("def test_step(bench): pass")
    result = sdperf("--sdperf-gpu=a100")
    assert result.ret == 4
    assert result.stderr.str().rstrip("\n") == f"ERROR: {NO_GPU}\n"[:-1]
    assert "passed" not in result.stdout.str()


NO_WEIGHTS = (
    "ERROR: --sdperf-weights=none builds graphs without weights, which nothing can execute, as test_it.py::{} would. "
    "Name only tests that look at graphs, such as test_fusions.py, or leave --sdperf-weights out."
)


@pytest.mark.parametrize("fixture", ["runner", "agree", "bench"])
def test_without_weights_nothing_is_executed(pytester, sdperf, fixture):
    pytester.makepyfile(test_it=f"def test_step({fixture}): pass\ndef test_graph(case): pass")
    result = sdperf("--sdperf-weights=none", *UNETS[:2], "--sdperf-optimization=fp16")
    assert result.ret == 4
    name = "test_step[sd15-thin-unet-on-ort-cpu-at-fp16-weights-none]"
    assert result.stderr.str().strip() == NO_WEIGHTS.format(name)
    assert "passed" not in result.stdout.str()


def test_without_weights_the_first_test_that_executes_is_named_with_the_number_of_others(pytester, sdperf):
    pytester.makepyfile(test_it="def test_step(bench): pass")
    result = sdperf("--sdperf-weights=none", *UNETS[:2])
    name = "test_step[sd15-thin-unet-on-ort-cpu-at-fp32-weights-none] and 1 other test"
    assert result.stderr.str().strip() == NO_WEIGHTS.format(name)
    assert result.ret == 4


def test_without_weights_graphs_are_looked_at(pytester, sdperf):
    pytester.makeconftest(BARE)
    pytester.makepyfile(test_it="def test_look(build): assert build.weights == 'none'\ndef test_step(bench): pass")
    result = sdperf("--sdperf-weights=none", "-k", "look", "--sdperf-component=unet", "--sdperf-optimization=fp16")
    result.assert_outcomes(passed=1, skipped=1, deselected=2)


@pytest.fixture
def bare(monkeypatch):
    """An environment without torch, as `pip install pytest-sdperf` makes it."""
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "torch" else find(name, *more))


@pytest.mark.parametrize("fixture", ["build", "runner", "agree", "bench", "drift", "replay", "pictures"])
def test_without_torch_one_sentence_says_what_to_install_before_the_first_test(pytester, sdperf, bare, fixture):
    pytester.makepyfile(f"def test_it({fixture}): pass")
    result = sdperf(*UNETS)
    result.assert_outcomes()
    assert result.ret == 4
    (said,) = filter(None, result.errlines)
    first, others = said.removeprefix("ERROR: torch is not installed, and ").split(" and ", 1)
    assert first.startswith("test_without_torch_one_sentence_says_what_to_install_before_the_first_test.py::test_it[")
    assert others.split(" cannot run")[1] == (
        " without it: models are made and exported with it. In a clone of pytest_sdperf type pip install '.[cpu]'."
    )


def test_without_torch_nothing_is_asked_of_tests_that_make_nothing(pytester, sdperf, bare):
    pytester.makepyfile(
        """
        import pytest

        def test_known(case, device): pass

        @pytest.mark.skip("not today")
        def test_later(runner): pass
        """
    )
    result = sdperf(*UNETS)
    assert result.ret == 0
    assert result.parseoutcomes().keys() == {"passed", "skipped"}


def test_graphs_that_are_given_need_no_torch(pytester, sdperf, bare):
    write(pytester.path / "given", "unet", make_unet())
    pytester.makeconftest(
        """
        from tiny_model import TinyModel

        def pytest_sdperf_register(catalog):
            catalog.add_model(TinyModel())
        """
    )
    pytester.makepyfile("def test_it(case, build): pass")
    flags = ("--sdperf-model=tiny", "--sdperf-fuser=native", "--sdperf-optimization=as-is")
    sdperf("--sdperf-onnx-dir=given", *flags).assert_outcomes(passed=1)


def test_a_selection_without_device_runs_anywhere(pytester, sdperf):
    pytester.makeconftest(BARE)
    pytester.makepyfile("def test_step(bench): pass\ndef test_graph(build): assert build.model == 'sd15'")
    result = sdperf("--sdperf-gpu=a100", "-k", "graph")
    result.assert_outcomes(passed=4, deselected=6)
    result.stdout.fnmatch_lines(["sdperf: no device needed, baselines *, cache *"])


def test_collecting_needs_no_device(pytester, sdperf):
    pytester.makepyfile("def test_step(bench): pass")
    result = sdperf("--sdperf-gpu=a100", "--collect-only", "-q")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*::test_step?sd15-unet-on-ort-cuda-at-fp16?"])


def test_an_unknown_gpu_is_refused_at_once(sdperf):
    result = sdperf("--sdperf-gpu=a1000x")
    assert result.ret == 4
    assert result.stderr.lines[0].startswith("ERROR: unknown GPU 'a1000x'. Did you mean ")


def test_the_device_that_was_found_is_named_before_the_first_test(pytester, sdperf):
    pytester.makeconftest(BARE + GPU)
    pytester.makepyfile("import pytest\n@pytest.mark.sdperf(engines='torch')\ndef test_step(bench): pass")
    result = sdperf("--sdperf-gpu=a100")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["sdperf: NVIDIA A100-SXM4-40GB (a100-sxm4-40gb), baselines *, cache *"])


def test_an_engine_asked_for_by_name_must_be_installed(pytester, sdperf):
    pytester.makeconftest(BARE)
    pytester.makepyfile("def test_step(bench): pass\ndef test_graph(build): pass")
    result = sdperf("--sdperf-engine=absent")
    assert result.ret == 4
    assert result.stderr.lines[0] == (
        "ERROR: engine 'absent' was asked for, but package 'a_module_that_nobody_has' is not installed; "
        "type: pip install a_module_that_nobody_has"
    )
    assert sdperf("--sdperf-engine=absent", "-k", "graph").ret == 0


def test_an_engine_that_all_brings_is_skipped_where_it_is_not_installed(pytester, sdperf):
    pytester.makeconftest(BARE)
    pytester.makepyfile("import pytest\n@pytest.mark.sdperf(components='unet')\ndef test_step(bench): pass")
    sdperf("--sdperf-engine=all").assert_outcomes(passed=3, skipped=2)


def test_a_worker_of_xdist_hands_its_refusal_to_the_controller(pytester, sdperf):
    pytester.makeconftest(BARE)
    pytester.makepyfile("def test_step(bench): pass")
    result = sdperf("--sdperf-gpu=a100", "-n1", plugins=XDIST)
    assert result.ret == 4
    text = result.stdout.str()
    assert text.count(f"ERROR: {NO_GPU}") == 1
    assert "INTERNALERROR" not in text


def test_xdist_distributes_cases(pytester, sdperf):
    pytester.makeconftest(BARE)
    pytester.makepyfile("def test_step(bench): pass")
    sdperf("-n1", "--sdperf-engine=ort-cpu", plugins=XDIST).assert_outcomes(passed=4)


def test_a_hook_in_a_deeper_conftest_is_an_error_that_says_where_to_move(pytester, sdperf):
    deep = pytester.mkdir("deep")
    (deep / "conftest.py").write_text("def pytest_sdperf_register(catalog): pass\n")
    (deep / "test_it.py").write_text("def test_it(): pass\n")
    result = sdperf()
    assert result.ret == 2
    message = (
        f"{deep / 'conftest.py'} registers after the catalog is closed. Move its pytest_sdperf_register to "
        f"{pytester.path / 'conftest.py'}, or load the file with -p."
    )
    assert message in result.outlines
    assert sdperf("deep").ret == 0


def test_a_profile_of_the_project_is_an_engine(pytester, sdperf):
    pytester.makeconftest(BARE)
    (pytester.path / "pyproject.toml").write_text(
        "[tool.sdperf.engines.mine]\nengine = 'ort-cpu'\noptions = { threads = 2 }\nenv = { A = '1' }\n"
    )
    pytester.makepyfile(
        """
        from pytest_sdperf.plugin.run import run_of

        def test_step(bench, request):
            asked = run_of(request.config).request_of(bench)
            assert (asked.label, asked.engine, asked.options) == ("mine", "ort-cpu", (("threads", "2"),))
            assert (asked.env, asked.by_name) == ({"A": "1"}, True)
        """
    )
    sdperf("--sdperf-engine=mine").assert_outcomes(passed=4)


def test_a_profile_with_an_interpreter_of_its_own_is_refused_in_this_process(pytester, sdperf):
    pytester.makeconftest(BARE)
    (pytester.path / "pyproject.toml").write_text(
        f"[tool.sdperf.engines.mine]\nengine = 'ort-cpu'\npython = '{sys.executable}'\n"
    )
    pytester.makepyfile("import pytest\n@pytest.mark.sdperf(engines='mine')\ndef test_step(bench): pass")
    sdperf().assert_outcomes(passed=4)
    result = sdperf("-osdperf_inprocess=true")
    assert result.ret == 4
    assert result.stderr.lines[0] == (
        "ERROR: profile 'mine' has an interpreter of its own, which cannot run inside pytest's process. Leave out "
        "sdperf_inprocess, or python in [tool.sdperf.engines.mine], or name another engine."
    )


NO_FOLDER = (
    "--{how}: there is no such folder.{meant} Name the folder of the baseline files, or add --sdperf-update-baselines, "
    "which makes it and records what is measured."
)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("baselinez", "baselines"), ("baselines/rak-3", "baselines/rack-3"), ("baselinez/rack-3", "baselines/rack-3")],
)
@pytest.mark.parametrize("fixture", ["bench", "build"])
def test_baselines_that_were_typed_have_to_be_there(pytester, sdperf, fixture, typed, meant):
    (pytester.path / "baselines/rack-3").mkdir(parents=True)
    pytester.makeconftest(BARE)
    pytester.makepyfile(f"def test_step({fixture}): pass")
    result = sdperf("--sdperf-engine=ort-cpu", f"--sdperf-baselines={typed}")
    result.assert_outcomes()
    assert result.ret == 4
    told = NO_FOLDER.format(how=f"sdperf-baselines={typed}", meant=f" Did you mean {pytester.path / meant}?")
    assert list(filter(None, result.errlines)) == [f"ERROR: {told}"]


def test_baselines_that_nothing_is_like_are_refused_as_well(pytester, sdperf):
    pytester.makeconftest(BARE)
    pytester.makepyfile("def test_step(bench): pass")
    result = sdperf("--sdperf-engine=ort-cpu", "--sdperf-baselines=baselinez")
    assert result.ret == 4
    assert list(filter(None, result.errlines)) == [
        f"ERROR: {NO_FOLDER.format(how='sdperf-baselines=baselinez', meant='')}"
    ]


def test_a_worker_of_xdist_refuses_baselines_that_are_not_there(pytester, sdperf):
    pytester.makeconftest(BARE)
    pytester.makepyfile("def test_step(bench): pass")
    result = sdperf("--sdperf-engine=ort-cpu", "--sdperf-baselines=baselinez", "-n2", plugins=XDIST)
    assert result.ret == 4
    told = NO_FOLDER.format(how="sdperf-baselines=baselinez", meant="")
    assert [line for line in result.outlines if line.startswith("ERROR")] == [f"ERROR: {told}"]


def test_a_run_that_records_makes_the_folder_that_was_typed(pytester, sdperf):
    pytester.makeconftest(MEASURED)
    pytester.makepyfile("def test_step(bench, runner): bench(runner)")
    flags = (*UNETS, "--sdperf-baselines=cards/mine", "--sdperf-state-dir=state")
    assert sdperf(*flags, "--sdperf-update-baselines").ret == 0
    assert (pytester.path / "cards/mine/toy-cpu.json").is_file()
    assert sdperf(*flags).ret == 0


@pytest.mark.parametrize("how", ["collect", "plan", "file", "default", "stranger"])
def test_where_nothing_is_judged_or_typed_no_folder_has_to_be_there(pytester, sdperf, how):
    pytester.makeconftest(BARE)
    pytester.makepyfile(f"def test_step({'' if how == 'stranger' else 'bench'}): pass")
    named = {"collect": ["--collect-only"], "plan": ["--sdperf-plan"], "stranger": []}
    if how == "file":
        pytester.makeini("[pytest]\nsdperf_baselines = baselinez\n")
    flags = [*named[how], "--sdperf-baselines=baselinez"] if how in named else []
    assert sdperf("--sdperf-engine=ort-cpu", *flags).ret != 4


def test_the_last_line_of_a_run_accepts_what_it_measured_here_and_nowhere_else(pytester, sdperf, capsys, monkeypatch):
    pytester.makeconftest(MEASURED)
    pytester.makepyfile("def test_step(bench, runner): bench(runner)")
    pytester.mkdir("my cards")
    result = sdperf(*UNETS, "--sdperf-state-dir=my state", "--sdperf-baselines=my cards")
    command = shlex.split(result.outlines[-2])
    assert command == ["sdperf", "baselines", "accept", "--baselines=my cards", "--state-dir=my state"]
    (pytester.path / "conftest.py").unlink()
    elsewhere = pytester.mkdir("elsewhere")
    monkeypatch.chdir(elsewhere)
    assert cli.main([*command[1:3], "--baselines=my cards", f"--state-dir={pytester.path / 'my state'}"]) == 4
    assert "there is nothing to accept: no run whose baselines are in my cards has left" in capsys.readouterr().err
    monkeypatch.chdir(pytester.path)
    assert cli.main(command[1:]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "written to my cards/toy-cpu.json"
    assert not list(elsewhere.iterdir())


def test_a_home_is_left_out_of_what_is_stored_and_of_no_word_that_somebody_follows(
    pytester, sdperf, capsys, monkeypatch
):
    home = str(pytester.path)
    monkeypatch.setenv("HOME", home)
    pytester.makeconftest(MEASURED)
    pytester.makepyfile("def test_step(bench, runner): bench(runner)")
    flags = (f"--sdperf-baselines={home}/cards", f"--sdperf-state-dir={home}/state", f"--sdperf-json={home}/out.json")
    pytester.mkdir("cards")
    result = sdperf(*UNETS[:2], "--sdperf-optimization=fp16", *flags)
    assert "~" not in result.stdout.str()
    command = shlex.split(result.outlines[-2])
    assert command == ["sdperf", "baselines", "accept", f"--baselines={home}/cards", f"--state-dir={home}/state"]
    assert cli.main(command[1:]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"written to {home}/cards/toy-cpu.json"
    assert home not in (pytester.path / "cards/toy-cpu.json").read_text()
    stored = (pytester.path / "out.json").read_text()
    assert home not in stored
    assert "--sdperf-baselines=~/cards" in stored


def test_names_that_are_no_utf_8_leave_files_that_can_be_read(pytester, sdperf, capsys):
    odd = os.fsdecode(b"gr\xf6\xdfer")
    pytester.makeconftest(MEASURED)
    pytester.makepyfile("def test_step(bench, runner): bench(runner)")
    flags = (f"--sdperf-baselines={odd}", f"--sdperf-state-dir={odd}.state", f"--sdperf-json={odd}.json")
    pytester.mkdir(odd)
    assert sdperf(*UNETS[:2], "--sdperf-optimization=fp16", *flags).ret == 0
    assert read_results(pytester.path / f"{odd}.json").run.command.count("gr\ufffd\ufffder") == 3
    accept = ["baselines", "accept", f"--baselines={odd}", f"--state-dir={odd}.state"]
    assert cli.main([*accept, "--re-anchor", f"--reason={odd}"]) == 0
    capsys.readouterr()
    assert cli.main(["gate", f"{odd}.json", f"--baselines={odd}", "--gpu=cpu"]) == 0
    assert "verdicts of 1 case: 1 HELD" in capsys.readouterr().out


@pytest.mark.parametrize("cache", [True, False])
def test_what_failed_is_named_to_a_pytest_that_notes_failures_alone(pytester, sdperf, cache):
    pytester.makeconftest(MEASURED)
    pytester.makepyfile("def test_step(case): assert case is None")
    if not cache:  # where no command shows it
        pytester.makeini("[pytest]\naddopts = -p no:cacheprovider")
    result = sdperf(*UNETS)
    place = result.outlines.index("next, run what failed again, once its reason is gone:")
    assert result.outlines[place + 1].endswith(" --lf") is cache


@pytest.mark.parametrize("inprocess", [True, False])
@pytest.mark.parametrize("update", [True, False])
def test_what_was_measured_in_this_process_is_never_kept(pytester, sdperf, inprocess, update):
    pytester.makeconftest(MEASURED)
    pytester.makepyfile("def test_step(bench, runner): bench(runner)")
    flags = [
        flag for flag, on in {"-osdperf_inprocess=true": inprocess, "--sdperf-update-baselines": update}.items() if on
    ]
    result = sdperf(*UNETS, "--sdperf-state-dir=state", *flags)
    result.assert_outcomes(passed=4)
    text = " ".join(" ".join(result.outlines).split())
    line = "Measured inside pytest's own process (sdperf_inprocess): nothing is kept as a candidate or baseline."
    assert (line in text) is inprocess
    assert ("results are kept as candidates" in text) is not (inprocess or update)
    kept = [path for folder in ("state/candidates/*", "baselines") for path in pytester.path.glob(f"{folder}/*.json")]
    assert len(kept) == (0 if inprocess else 1)


@pytest.mark.parametrize("name", ["json", "explain"])
@pytest.mark.parametrize(("file", "why"), [("taken/x.json", "Not a directory"), ("folder", "Is a directory")])
def test_a_file_that_cannot_be_written_is_refused_before_the_first_test(pytester, sdperf, name, file, why):
    pytester.makeconftest(BARE)
    pytester.makepyfile("def test_step(bench): assert False")
    pytester.path.joinpath("taken").write_text("")
    pytester.path.joinpath("folder").mkdir()
    result = sdperf(*UNETS, f"--sdperf-{name}={file}")
    assert result.ret == 4
    assert result.stderr.lines[0] == (
        f"ERROR: --sdperf-{name}={pytester.path / file} cannot be written: {why}. Name a file in a writable folder "
        f"with --sdperf-{name}=FILE."
    )
    assert [path.name for path in pytester.path.joinpath("folder").iterdir()] == []


def test_a_file_that_can_be_written_is_not_touched_before_the_end(pytester, sdperf):
    pytester.makeconftest(BARE)
    pytester.makepyfile("from pathlib import Path\ndef test_step(bench): assert Path('x.json').read_text() == 'before'")
    pytester.path.joinpath("x.json").write_text("before")
    sdperf(*UNETS, "--sdperf-explain=x.json").assert_outcomes(passed=4)
    assert sorted(path.name for path in pytester.path.glob("*.json")) == ["x.json"]
    assert pytester.path.joinpath("x.json").read_text() != "before"


@pytest.mark.parametrize("gpu", ["cpu", "CPU", " Cpu "])
def test_the_cpu_may_be_named_in_any_case(pytester, sdperf, gpu):
    pytester.makeconftest(
        BARE
        + """
    from pytest_sdperf.plugin.run import run_of

    def pytest_report_header(config):
        run = run_of(config)
        return f"on {run.device_kind}, {run.settings.on_gpu}"
    """
    )
    pytester.makepyfile("def test_step(bench): assert bench.model == 'sd15-thin'")
    result = sdperf(f"--sdperf-gpu={gpu}", "--sdperf-engine=ort-cpu")
    result.assert_outcomes(passed=4)
    assert "on cpu, False" in result.outlines


def test_a_worker_of_xdist_uses_the_device_that_the_first_process_chose(pytester, sdperf):
    pytester.makeconftest(BARE + TWO_CARDS)
    pytester.makepyfile(
        """
        from pytest_sdperf.plugin.session import session_of

        def test_step(bench, request):
            bench = session_of(request.config).context
            assert (bench.device.uuid, bench.probe.name) == ("GPU-2", "second")
        """
    )
    sdperf("-n1", "--sdperf-gpu=a100", plugins=XDIST).assert_outcomes(passed=6)


def test_measurements_of_several_workers_take_turns(pytester, sdperf):
    pytester.makeconftest(MEASURED)
    pytester.makepyfile("def test_step(bench, runner): bench(runner)")
    arguments = [*UNETS, "--sdperf-state-dir=state", "--sdperf-json=out.json"]
    sdperf("-n2", *arguments, plugins=XDIST).assert_outcomes(passed=4)
    log = [line.split() for line in (pytester.path / "log").read_text().splitlines()]
    assert [moment for moment, _ in log] == ["begin", "end"] * 4
    assert all(begin == end for (_, begin), (_, end) in zip(log[::2], log[1::2], strict=True))
    assert len({worker for _, worker in log}) == 2
    reports = json.loads((pytester.path / "out.json").read_text())["reports"]
    told = [[remark["text"] for remark in report["measurement"]["remarks"]] for report in reports]
    assert told == [[BESIDE_OTHERS]] * 4


@pytest.mark.parametrize("name", ["pytest_sdperf.plugin", "sdperf"])
def test_it_can_be_loaded_by_name_where_autoloading_is_off(pytester, monkeypatch, name):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    result = pytester.runpytest_inprocess("-p", name, "--help")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*--sdperf-gpu=DEVICE*"])


def test_its_fixtures_and_marker_are_documented(sdperf):
    text = sdperf("--fixtures", "-q").stdout.str()
    for name in ("case", "model", "build", "engine", "runner", "bench", "agree", "device"):
        assert any(line.startswith((f"{name} ", f"{name} [")) for line in text.splitlines()), name
    (line,) = [line for line in sdperf("--markers").outlines if line.startswith("@pytest.mark.sdperf")]
    assert line == (
        "@pytest.mark.sdperf(models, components, engines, optimizations, batch_sizes, shapes, tolerances, reason): the "
        "cases of a test that uses the fixtures of pytest_sdperf (from pytest_sdperf)"
    )
