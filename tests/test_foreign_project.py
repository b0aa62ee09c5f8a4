"""A guest in someone's environment: the plugin is installed, and the project does not use it."""

from __future__ import annotations

import functools
import re
import shutil
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from our_fixtures import our_fixtures

from pytest_sdperf import short_fixtures

ROOT = Path(__file__).parent.parent
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


# Another plugin that owns names which ours might take: its fixtures ask for each other.
STRANGER = """
    import pytest

    @pytest.fixture
    def device():
        return "iPhone 13"

    @pytest.fixture
    def model(device):
        return f"model of {device}"

    @pytest.fixture
    def bench(model):
        return lambda: model
"""
STRANGERS_TEST = (
    "def test_theirs(bench, model, device): assert bench() == model == f'model of {device}' == 'model of iPhone 13'\n"
)
SHORT = "from pytest_sdperf.short_fixtures import *\n"
ONE_CASE = ("--sdperf-optimization=fp32", "--sdperf-component=unet", "--sdperf-engine=torch")
SHORT_NAMES = sorted(short_fixtures.__all__)


@pytest.fixture
def guest(sdperf):
    """Our plugin as it is installed."""
    return functools.partial(sdperf, short=False)


@pytest.fixture
def foreign(pytester, guest):
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TESTS)
    return guest


@pytest.fixture
def stranger(pytester, monkeypatch):
    """Another plugin that is installed, `stranger`."""
    (pytester.mkdir("site") / "stranger.py").write_text(dedent(STRANGER))
    monkeypatch.syspath_prepend("site")
    yield "stranger"
    sys.modules.pop("stranger", None)


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


@pytest.mark.parametrize("short", ["", SHORT])
def test_a_case_of_its_own_is_its_own(pytester, guest, short):
    pytester.makeconftest(f"{short}import pytest\n@pytest.fixture\ndef case():\n    return 'mine'\n")
    pytester.makepyfile("def test_case(case): assert case == 'mine'")
    guest().assert_outcomes(passed=1)


# ------------------------------------------------------------------------------------------------ names of fixtures


def test_the_plugin_adds_no_fixture_but_its_own_names(guest):
    def names(*loaded):
        text = guest("--fixtures", "-v", plugins=loaded).stdout.str()
        return set(re.findall(r"^(\w+)(?: \[\w+ scope\])? -- (?!\.\.\./_pytest/)", text, flags=re.MULTILINE))

    assert {name for name in names() if not name.startswith("sdperf_")} == set()
    assert names() == set(our_fixtures())
    assert names("pytest_sdperf.short_fixtures") == {*our_fixtures(), *short_fixtures.__all__}


def test_every_name_has_a_short_one(guest):
    assert {f"sdperf_{name}" for name in short_fixtures.__all__} == {*our_fixtures()} - {"sdperf_session"}


@pytest.mark.parametrize("first", ["stranger", "ours"])
def test_tests_of_another_plugin_stay_what_they_are(pytester, guest, stranger, first):
    pytester.makepyfile(STRANGERS_TEST)
    plugins = [stranger] if first == "ours" else []
    flags = ["-p", stranger] if first == "stranger" else []
    guest(*flags, plugins=plugins).assert_outcomes(passed=1)


def test_a_test_is_the_same_thing_by_either_spelling_of_its_fixtures(pytester, guest):
    pytester.makeconftest(
        SHORT
        + dedent("""
        from pytest_sdperf.cases.items import case_of, uses_our_device
        from pytest_sdperf.cases.purposes import measures, purpose_of

        def pytest_collection_finish(session):
            for item in session.items:
                kind, name = item.originalname.split("__")
                print("IT IS", kind, name, case_of(item), purpose_of(item), measures(item), uses_our_device(item))
        """)
    )
    pytester.makepyfile(
        "\n".join(f"def test__{name}(sdperf_{name}): pass\ndef short__{name}({name}): pass" for name in SHORT_NAMES)
    )
    result = guest("--collect-only", "-q", "-o", "python_functions=test_* short_*")
    said = [line.split(maxsplit=4)[2:] for line in result.outlines if line.startswith("IT IS")]
    by_kind = {kind: sorted((name, rest) for of, name, rest in said if of == kind) for kind in ("test", "short")}
    assert by_kind["test"] == by_kind["short"]
    assert {name for name, _ in by_kind["short"]} == set(SHORT_NAMES)


def test_both_spellings_are_one_thing_in_one_test(pytester, guest):
    pytester.makeconftest(SHORT)
    pytester.makepyfile(
        "def test_it(case, sdperf_case, model, sdperf_model): assert case is sdperf_case and model is sdperf_model"
    )
    guest(*ONE_CASE).assert_outcomes(passed=1)


def test_short_names_end_with_the_folder_that_asked_for_them(pytester, guest, stranger):
    ours, theirs = pytester.mkdir("ours"), pytester.mkdir("theirs")
    (ours / "conftest.py").write_text(SHORT)
    (ours / "test_ours.py").write_text("def test_it(engine, case): assert engine.name == case.engine\n")
    (theirs / "test_theirs.py").write_text(STRANGERS_TEST)
    result = guest(*ONE_CASE, plugins=[stranger])
    result.assert_outcomes(passed=2)


def test_some_of_the_short_names_alone_are_asked_for(pytester, guest, stranger):
    pytester.makeconftest("from pytest_sdperf.short_fixtures import case, engine\n")
    pytester.makepyfile(
        f"{STRANGERS_TEST}def test_ours(case, engine, sdperf_model): assert sdperf_model.name == case.model"
    )
    result = guest(*ONE_CASE, plugins=[stranger])
    result.assert_outcomes(passed=2)


CLASH = (
    "test_it.py::test_theirs: the fixture '{name}' has two owners: pytest_sdperf "
    "(pytest_sdperf.short_fixtures{through}) and {owner}. Type "
    "sdperf_{name} for ours, and bring those of the other short names that you use one by one: from "
    "pytest_sdperf.short_fixtures import bench, runner"
)


def told(result):
    """Return what is said of one test that cannot be collected."""
    result.assert_outcomes(errors=1)
    (line,) = [line for line in result.outlines if "two owners" in line and "::test_theirs" in line]
    return line


@pytest.mark.parametrize("name", ["bench", "device", "model"])
def test_a_name_that_another_plugin_has_too_is_an_error(pytester, guest, stranger, name):
    pytester.makeconftest(SHORT)
    pytester.makepyfile(test_it=f"def test_theirs({name}): pass")
    expected = CLASH.format(name=name, through=" in conftest.py", owner="stranger")
    assert told(guest(plugins=[stranger])) == expected


def test_a_name_that_is_imported_by_itself_is_ours_as_anywhere_in_pytest(pytester, guest, stranger):
    pytester.makeconftest("from pytest_sdperf.short_fixtures import case, device")
    pytester.makepyfile("def test_it(device, case): assert device.name == 'Toy CPU'")
    guest(*ONE_CASE, plugins=[stranger]).assert_outcomes(passed=1)


def test_a_name_that_another_plugins_fixture_means_for_its_own_is_an_error(pytester, guest, stranger):
    pytester.makeconftest("from pytest_sdperf.short_fixtures import bench, device")
    pytester.makepyfile(test_it="def test_theirs(model): pass")
    expected = CLASH.format(
        name="device", through=" in conftest.py", owner="stranger, whose fixture 'model' asks for it"
    )
    assert told(guest(plugins=[stranger])) == expected


def test_a_name_that_a_fixture_of_a_conftest_further_up_means_for_its_own_is_an_error(pytester, guest):
    pytester.makeconftest(
        """
        import pytest

        @pytest.fixture
        def device():
            return "mine"

        @pytest.fixture
        def page(device):
            return device
        """
    )
    (pytester.mkdir("deeper") / "conftest.py").write_text(SHORT)
    (pytester.path / "deeper" / "test_it.py").write_text("def test_theirs(page): pass")
    through, owner = " in deeper/conftest.py", "conftest.py, whose fixture 'page' asks for it"
    expected = CLASH.format(name="device", through=through, owner=owner).replace("test_it", "deeper/test_it")
    assert told(guest()) == expected


@pytest.mark.parametrize(
    "order", [["stranger", "pytest_sdperf.short_fixtures"], ["pytest_sdperf.short_fixtures", "stranger"]]
)
def test_a_name_that_two_plugins_bring_is_an_error_whichever_is_loaded_first(pytester, guest, stranger, order):
    pytester.makepyfile(test_it="def test_theirs(device): pass")
    assert told(guest(plugins=order)) == CLASH.format(name="device", through="", owner="stranger")


def test_what_is_nearer_to_a_test_wins_as_anywhere_in_pytest(pytester, guest):
    pytester.makeconftest(f"{SHORT}\nimport pytest\n@pytest.fixture\ndef device(): return 'conftest'")
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture
        def model(device): return f"{device}, file"

        def test_mine(device, model): assert (device, model) == ("conftest", "conftest, file")
        """
    )
    guest(plugins=["pytest_sdperf.short_fixtures"]).assert_outcomes(passed=1)


def test_the_suites_are_collected_beside_a_plugin_that_owns_their_names(pytester, guest, stranger):
    shutil.copytree(ROOT / "suites", pytester.path / "suites", ignore=shutil.ignore_patterns("__pycache__"))
    (pytester.path / "suites" / "test_semantics.py").unlink()  # of a model that the toys have not
    result = guest("--collect-only", "-q", "suites", plugins=[stranger])
    assert result.ret == 0
    assert any(
        "test_pipelines.py::test_engine_is_as_fast" in line and "sd15-thin-unet" in line for line in result.outlines
    )


def test_neither_help_nor_collection_imports_a_framework(pytester, monkeypatch):
    pytester.makepyfile(
        "def test_speed(sdperf_bench): pass\ndef test_graph(sdperf_build): pass\ndef test_model(sdperf_model): pass\n"
    )
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
    result.stdout.fnmatch_lines(["sdperf, 13 of * options; *", "*test_speed?sd15-thin-unet-on-torch-at-fp32?*"])
