from __future__ import annotations

import pytest

XDIST = ["xdist.plugin"]
GPU = """
    from door_toys import ToyProbe
    from pytest_sdperf.device import Device

    def pytest_sdperf_register(catalog):
        catalog.add_device_probe(ToyProbe(Device("cuda", "NVIDIA A100-SXM4-40GB", "a100-sxm4-40gb", uuid="GPU-1")))
"""
# What the fixtures of a user's test need beyond the case is not the door's business.
BARE = """
    import pytest

    @pytest.fixture
    def bench(case):
        return case

    @pytest.fixture
    def build(case):
        return case
"""
NO_GPU = (
    "GPU 'a100' was asked for, but no device of this machine answers to it.\nLeave the option out to run on the CPU."
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
    result.stdout.fnmatch_lines(
        [
            "SKIPPED*: not applicable: torch runs the torch module",
            "SKIPPED*: this test is for model sdxl, the command line names sd15-thin",
        ]
    )


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
        "batch_sizes, components, engines, min_effect, models, optimizations, reason."
    )
    assert message in result.outlines
    assert "Traceback" not in result.stdout.str()


def test_a_missing_device_stops_the_run_before_its_first_test(pytester, sdperf):
    pytester.makeconftest(BARE)
    pytester.makepyfile("def test_step(bench): pass")
    result = sdperf("--sdperf-gpu=a100")
    assert result.ret == 4
    assert result.stderr.str().rstrip("\n") == f"ERROR: {NO_GPU}\n"[:-1]
    assert "passed" not in result.stdout.str()


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
        from pytest_sdperf.run import run_of

        def test_step(bench, request):
            asked = run_of(request.config).request_of(bench)
            assert (asked.label, asked.engine, asked.options) == ("mine", "ort-cpu", (("threads", "2"),))
            assert (asked.env, asked.by_name) == ({"A": "1"}, True)
        """
    )
    sdperf("--sdperf-engine=mine").assert_outcomes(passed=4)


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
    sdperf("--markers").stdout.fnmatch_lines(["@pytest.mark.sdperf(models, components, engines, optimizations, *"])
