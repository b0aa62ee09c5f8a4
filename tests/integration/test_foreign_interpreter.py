"""A profile runs its engine under an interpreter that has numpy and onnxruntime and nothing of the suite."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
import venv
from pathlib import Path

import pytest
from user_project import ACME

# A wheel keeps its shared libraries beside its package.
PACKAGES = ("numpy", "numpy.libs", "onnxruntime")
TESTS = """
    import pytest

    @pytest.mark.sdperf(components=["unet"], optimizations=["fp32"])
    def test_right_and_fast(runner, agree, bench):
        agree(runner)
        bench(runner)
"""
LOOK = """
import importlib.util, json, sys
names = ("numpy", "onnxruntime", "pytest_sdperf", "pytest", "torch", "msgspec", "safetensors")
print(json.dumps([name for name in names if importlib.util.find_spec(name)]))
"""


def environment(folder: Path) -> Path:
    """Create a virtual environment without any package and return its interpreter."""
    venv.create(folder, with_pip=False, symlinks=os.name != "nt")
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


@pytest.fixture(scope="session")
def foreign_python(tmp_path_factory) -> Path:
    """An environment with two packages; links stand for an installation, which would take a minute and the network."""
    folder = tmp_path_factory.mktemp("foreign")
    python = environment(folder / "venv")
    installed, packages = Path(sysconfig.get_paths()["purelib"]), folder / "packages"
    packages.mkdir()
    for name in PACKAGES:
        if (installed / name).exists():
            (packages / name).symlink_to(installed / name, target_is_directory=True)
    (site,) = (path for path in (folder / "venv").rglob("site-packages") if path.is_dir())
    (site / "links.pth").write_text(f"{packages}\n")
    return python


def profile(python: Path | str, **env: str) -> str:
    variables = ", ".join(f'{name} = "{value}"' for name, value in env.items())
    return f"""
        [tool.sdperf.engines.other]
        engine = "ort-cpu"
        python = {json.dumps(str(python))}
        env = {{ {variables} }}
    """


@pytest.mark.slow
def test_the_suite_is_not_installed_there(foreign_python, tmp_path):
    found = subprocess.run([foreign_python, "-c", LOOK], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert json.loads(found.stdout) == ["numpy", "onnxruntime"]


@pytest.mark.slow
def test_an_engine_runs_there_with_the_profiles_environment(user, foreign_python):
    import onnxruntime

    user.project(tests=TESTS, profiles=profile(foreign_python, OMP_NUM_THREADS="1"))
    result = user.run("--sdperf-engine=other,ort-cpu")
    result.assert_outcomes(passed=2)
    assert result.ret == 0
    other, here = user.results()["reports"]
    assert (other["case"]["engine"], here["case"]["engine"]) == ("other", "ort-cpu")
    assert other["measurement"]["subject"] == {"onnxruntime": onnxruntime.__version__, "threads": "1"}
    assert here["measurement"]["subject"]["threads"] == "one per core"
    assert other["measurement"]["graph_hashes"] == here["measurement"]["graph_hashes"]
    assert other["agreements"][0]["error"] <= other["agreements"][0]["limit"]


@pytest.mark.slow
def test_an_engine_whose_package_is_missing_there_is_invalid(user, tmp_path):
    bare = environment(tmp_path / "bare")
    user.project(profiles=profile(bare))
    result = user.run("--sdperf-engine=other")
    result.assert_outcomes(failed=1)
    assert result.ret == 10
    (verdict,) = user.verdicts("measurement")
    assert (verdict["outcome"], verdict["code"]) == ("INVALID", "refused")
    assert verdict["sentence"] == (
        f"Engine 'ort-cpu' cannot run under {bare}: package 'onnxruntime' is not installed; type: pip install "
        f"'pytest-sdperf[cpu]'."
    )


def test_an_interpreter_that_does_not_exist_is_refused_before_the_first_test(user):
    user.project(profiles=profile("venvs/nightly/bin/python"))
    result = user.run("--sdperf-engine=other")
    assert result.ret == 4
    assert result.errlines[0] == (
        f"ERROR: profile 'other' names the interpreter {user.path}/venvs/nightly/bin/python, which does not exist. "
        f"Create that environment, or correct python in [tool.sdperf.engines.other]."
    )


def test_a_file_that_is_no_interpreter_is_invalid(acme):
    python = acme.path / "python"
    python.write_text("no program")
    acme.project(conftest=ACME, profiles=profile(python).replace("ort-cpu", "acme"))
    result = acme.run("--sdperf-engine=other")
    assert result.ret == 10
    (verdict,) = acme.verdicts("measurement")
    assert verdict["sentence"] == (
        "The interpreter ~/python cannot be started (Permission denied). Check the 'python' of the profile in "
        "[tool.sdperf.engines]."
    )
