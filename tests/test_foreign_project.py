"""A guest in someone's environment: the plugin is installed, and the project does not use it."""

from __future__ import annotations

import sys

import pytest

CONFTEST = """
    import pytest

    def pytest_addoption(parser):
        parser.addoption("--gpu", default="none")
        parser.addoption("--model", default="none")

    @pytest.fixture
    def model(request):
        return request.config.getoption("--model")

    @pytest.fixture(params=["a", "b"])
    def engine(request):
        return request.param

    @pytest.fixture
    def bench(engine):
        return lambda: engine
"""
TESTS = """
    import pytest

    def test_options(request, model):
        assert (request.config.getoption("--gpu"), model) == ("7", "mine")

    def test_own_fixtures(bench, engine):
        assert bench() == engine

    @pytest.mark.parametrize("case", [1, 2])
    def test_own_parameter(case):
        assert case in (1, 2)
"""


@pytest.fixture
def foreign(pytester, sdperf):
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TESTS)
    return sdperf


def test_a_project_that_owns_gpu_and_model_is_not_disturbed(foreign):
    result = foreign("-v", "--gpu=7", "--model=mine")
    result.assert_outcomes(passed=5)
    assert [
        line for line in result.outlines if "sdperf" in line and not line.startswith(("plugins:", "rootdir:"))
    ] == []


def test_it_may_use_xdist_and_pytest_benchmark_as_it_likes(foreign, pytester):
    result = foreign(
        *("-n1", "--gpu=7", "--model=mine", "--benchmark-json=out.json"),
        plugins=["xdist.plugin", "pytest_benchmark.plugin"],
    )
    assert result.ret == 0, result.stderr.str()


def test_its_benchmark_files_stay_as_they_were(foreign, pytester):
    pytester.makepyfile("def test_speed(benchmark): benchmark(lambda: None)")
    result = foreign("--benchmark-json=out.json", "--benchmark-max-time=0.01", plugins=["pytest_benchmark.plugin"])
    result.assert_outcomes(passed=1)
    assert "sdperf" not in (pytester.path / "out.json").read_text()


def test_a_case_of_its_own_is_its_own(pytester, sdperf):
    pytester.makeconftest("import pytest\n@pytest.fixture\ndef case():\n    return 'mine'\n")
    pytester.makepyfile("def test_case(case): assert case == 'mine'")
    sdperf().assert_outcomes(passed=1)


def test_neither_help_nor_collection_imports_a_framework(pytester, monkeypatch):
    pytester.makepyfile("def test_speed(bench): pass\ndef test_graph(build): pass\ndef test_model(model): pass\n")
    script = pytester.makepyfile(
        run="""
        import sys
        import pytest

        heavy = {"torch", "onnx", "onnxruntime", "diffusers", "transformers", "numpy", "scipy"}
        for arguments in (["--help"], ["--collect-only", "-q"]):
            assert pytest.main(["-p", "pytest_sdperf.plugin", *arguments]) == 0
            assert not heavy & set(sys.modules), heavy & set(sys.modules)
        """
    )
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    result = pytester.run(sys.executable, script)
    assert result.ret == 0, result.stderr.str()
    result.stdout.fnmatch_lines(["*sdperf: where it runs:*", "*test_speed?sd15-thin-unet-on-torch-at-fp32?*"])
