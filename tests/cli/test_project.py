"""Commands that judge and accept read pytest's configuration, and nobody's `conftest.py`."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pytest_sdperf import cli
from pytest_sdperf.cli.project import folders
from pytest_sdperf.core.errors import OptionError

# What a `conftest.py` may do, in a project whose tests need what is not here.
CONFTESTS = {
    "imports": "import a_module_that_nobody_has",
    "loads plugins": "pytest_plugins = ['a_plugin_that_nobody_has']",
    "raises": "raise RuntimeError('no GPU')",
    "is no Python": "def (",
    "skips": "import pytest; pytest.skip('not here', allow_module_level=True)",
    "ends pytest": "import pytest; pytest.exit('not here')",
    "refuses to go on": "import sys; sys.exit('not here')",
}
SETTINGS = {
    "pytest.ini": "[pytest]\ntestpaths = tests\nsdperf_baselines = kept\nsdperf_state_dir = state\n",
    "pyproject.toml": (
        "[tool.pytest.ini_options]\ntestpaths = ['tests']\n[tool.sdperf]\nbaselines = 'kept'\nstate-dir = 'state'\n"
    ),
    "setup.cfg": "[tool:pytest]\ntestpaths = tests\naddopts = --sdperf-baselines=kept --sdperf-state-dir=state\n",
}


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    (tmp_path / "tests").mkdir()
    return tmp_path


@pytest.mark.parametrize("where", [".", "tests"])
@pytest.mark.parametrize("conftest", CONFTESTS.values(), ids=CONFTESTS)
def test_whatever_a_conftest_does_it_is_not_there(place, where, conftest):
    (place / "pytest.ini").write_text(SETTINGS["pytest.ini"])
    (place / where / "conftest.py").write_text(f"{conftest}\n")
    found = folders()
    assert (found.baselines, found.state) == (place / "kept", place / "state")


@pytest.mark.parametrize("name", SETTINGS)
def test_what_the_configuration_says_is_read(place, name):
    (place / "tests" / "conftest.py").write_text("import a_module_that_nobody_has\n")
    (place / name).write_text(SETTINGS[name])
    found = folders()
    assert (found.baselines, found.state) == (place / "kept", place / "state")


def test_options_of_a_conftest_and_other_peoples_are_of_no_concern(place):
    (place / "conftest.py").write_text("def pytest_addoption(parser): parser.addoption('--run-slow')\n")
    (place / "pytest.ini").write_text(
        "[pytest]\naddopts = --run-slow=1 --model=mine -q --sdperf-baselines=kept\nsome_key = 1\n"
    )
    assert folders().baselines == place / "kept"


@pytest.mark.parametrize(
    ("option", "then"),
    [
        ("--baselines", "Type --sdperf-baselines there."),
        ("--state-dir", "Type --sdperf-state-dir there."),
        ("--cache-dir", "Type --sdperf-cache-dir there."),
        ("--sdperf-baselinez", "See `sdperf options` for those that there are."),
    ],
)
def test_an_option_of_ours_that_would_be_forgotten_is_refused(place, option, then):
    (place / "pytest.ini").write_text(f"[pytest]\naddopts = {option}=kept\n")
    with pytest.raises(OptionError) as caught:
        folders()
    assert str(caught.value) == (
        f"the configuration of pytest has the option {option}, which is none without a conftest.py, and this command "
        f"loads none. {then}"
    )


def test_a_conftest_that_registers_baselines_is_not_passed_over_in_silence(place, capsys):
    (place / "conftest.py").write_text("def pytest_sdperf_register(catalog): catalog.add_baselines('acme')\n")
    assert cli.main(["baselines", "accept"]) == 4
    assert capsys.readouterr().err == (
        f"ERROR: {place / 'conftest.py'} registers a folder of baselines (add_baselines), and this command loads no "
        f"conftest.py: it may import what is not here. Move pytest_sdperf_register into a module that pytest loads by "
        f"its name, such as acme.py: addopts = -p acme\n"
    )


@pytest.mark.parametrize("command", [["baselines", "list"], ["cache", "info"]])
def test_no_command_loads_what_only_tests_need(place, command):
    (place / "pytest.ini").write_text(f"{SETTINGS['pytest.ini']}sdperf_cache_dir = state\n")
    (place / "tests" / "conftest.py").write_text("import hypothesis, torch\n")
    (place / "state").mkdir()
    program = f"import sys; from pytest_sdperf import cli; cli.main({command}); print({{'torch'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "set()"
    assert done.stderr == "" or "ERROR: there is no" in done.stderr
