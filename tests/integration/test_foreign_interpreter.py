"""A profile runs its engine under an interpreter that has numpy and onnxruntime and nothing of the suite."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
import venv
from pathlib import Path

import pytest
from user_project import ACME, SPEED_TEST

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


def environment_with(folder: Path, *packages: str) -> Path:
    """Create one with packages; links stand for an installation, which would take a minute and the network."""
    python = environment(folder / "venv")
    installed, linked = Path(sysconfig.get_paths()["purelib"]), folder / "packages"
    linked.mkdir()
    for name in packages:
        if (installed / name).exists():
            (linked / name).symlink_to(installed / name, target_is_directory=True)
    (site,) = (path for path in (folder / "venv").rglob("site-packages") if path.is_dir())
    (site / "links.pth").write_text(f"{linked}\n")
    return python


@pytest.fixture(scope="session")
def foreign_python(tmp_path_factory) -> Path:
    return environment_with(tmp_path_factory.mktemp("foreign"), *PACKAGES)


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
def test_an_engine_runs_there_with_the_profiles_environment(user, foreign_python, monkeypatch):
    import onnxruntime

    monkeypatch.delenv("OMP_NUM_THREADS")
    user.project(tests=TESTS, profiles=profile(foreign_python, OMP_NUM_THREADS="1"))
    result = user.run("--sdperf-engine=other,ort-cpu")
    result.assert_outcomes(passed=2)
    assert result.ret == 0
    other, here = user.results()["reports"]
    assert (other["case"]["engine"], here["case"]["engine"]) == ("other", "ort-cpu")
    assert other["measurement"]["subject"] == {"onnxruntime": onnxruntime.__version__, "threads": "1"}
    assert here["measurement"]["subject"]["threads"] == "one per core"
    assert other["measurement"]["graph_hashes"] == here["measurement"]["graph_hashes"]
    agreement, *_ = user.agreements()
    assert agreement["error"] <= agreement["limit"]


@pytest.mark.parametrize(
    ("packages", "component", "problem"),
    [
        ([], "unet", "{python} lacks numpy, which every worker needs; type: {python} -m pip install numpy"),
        (
            PACKAGES[:2],
            "unet",
            (
                "engine 'ort-cpu' cannot run under {python}: package 'onnxruntime' is not installed; type: {python} -m "
                "pip install onnxruntime"
            ),
        ),
        (
            PACKAGES,
            "pipeline",
            (
                "a pipeline needs torch, diffusers, transformers beside its engine, and {python} lacks torch, "
                "diffusers, transformers; type: {python} -m pip install torch diffusers transformers"
            ),
        ),
    ],
)
def test_a_package_that_is_missing_there_is_asked_for_before_the_first_test(
    user, tmp_path, packages, component, problem
):
    python = environment_with(tmp_path, *packages)
    user.project(tests=SPEED_TEST.replace("unet", component), profiles=profile(python))
    result = user.run("--sdperf-engine=other")
    assert result.ret == 4
    assert result.errlines[0] == f"ERROR: engine 'other' was asked for, but {problem.format(python=python)}"


@pytest.mark.parametrize(
    ("program", "mode", "problem"),
    [
        (
            "no program",
            0o644,
            (
                "the interpreter {python} cannot be started (Permission denied). Check --sdperf-ab, or the 'python' of "
                "the profile in [tool.sdperf.engines]."
            ),
        ),
        (
            "#!/bin/sh\necho 'libpython3.so: no such file' >&2\nexit 127\n",
            0o755,
            (
                "{python} cannot run a worker: the worker ended with exit status 127 and no answer; libpython3.so: no "
                "such file"
            ),
        ),
    ],
)
@pytest.mark.skipif(os.name == "nt", reason="a script stands for the interpreter")
def test_a_file_that_is_no_interpreter_is_refused_before_the_first_test(acme, program, mode, problem):
    python = acme.path / "python"
    python.write_text(program)
    python.chmod(mode)
    acme.project(conftest=ACME, profiles=profile(python).replace("ort-cpu", "acme"))
    result = acme.run("--sdperf-engine=other")
    assert result.ret == 4
    assert result.errlines[0] == f"ERROR: engine 'other' was asked for, but {problem.format(python=python)}"


def test_an_interpreter_that_does_not_exist_is_refused_before_the_first_test(user):
    user.project(profiles=profile("venvs/nightly/bin/python"))
    result = user.run("--sdperf-engine=other")
    assert result.ret == 4
    assert result.errlines[0] == (
        f"ERROR: profile 'other' names the interpreter {user.path}/venvs/nightly/bin/python, which does not exist. "
        f"Create that environment, or correct python in [tool.sdperf.engines.other]."
    )
