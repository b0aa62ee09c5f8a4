"""A profile runs its engine under an interpreter that has numpy and onnxruntime and nothing of the suite."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
import venv
from pathlib import Path

import pytest

from conftest import joined

# In `Lib/site-packages` of this environment; a wheel keeps its libraries beside its package.
PACKAGES = ("numpy", "numpy.libs", "onnxruntime")
LOOK = """
import importlib.util, json, sys
names = ("numpy", "onnxruntime", "pytest_sdperf", "pytest", "torch", "msgspec", "safetensors")
print(json.dumps([name for name in names if importlib.util.find_spec(name)]))
"""


@pytest.fixture(scope="session")
def foreign_python(tmp_path_factory) -> Path:
    """An environment of its own; links stand for an installation, which would take a minute and the network."""
    folder = tmp_path_factory.mktemp("foreign")
    venv.create(folder / "venv", with_pip=False, symlinks=os.name != "nt")
    installed = Path(sysconfig.get_paths()["purelib"])
    packages = folder / "packages"
    packages.mkdir()
    for name in PACKAGES:
        if (installed / name).exists():
            (packages / name).symlink_to(installed / name, target_is_directory=True)
    scripts = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
    python = scripts / ("python.exe" if os.name == "nt" else "python")
    site = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    (Path(site) / "links.pth").write_text(f"{packages}\n")
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
    user.project(profiles=profile(foreign_python, OMP_NUM_THREADS="1"))
    result = user.run("--sdperf-engine=other,ort-cpu")
    result.assert_outcomes(passed=2)
    assert result.ret == 0
    reports = {report["case"]["engine"]: report["measurement"] for report in user.results()["reports"]}
    import onnxruntime

    assert reports["other"]["subject"] == {"onnxruntime": onnxruntime.__version__, "threads": "1"}
    assert reports["ort-cpu"]["subject"]["threads"] == "one per core"
    assert reports["other"]["graph_hashes"] == reports["ort-cpu"]["graph_hashes"]
    assert "other: onnxruntime" in result.stdout.str()


@pytest.mark.slow
def test_it_computes_there_what_torch_computes_here(user, foreign_python):
    user.project(
        profiles=profile(foreign_python),
        tests="""
            import pytest

            @pytest.mark.sdperf(components=["unet"], optimizations=["fp32"])
            def test_right(runner, agree):
                agree(runner)
        """,
    )
    result = user.run("--sdperf-engine=other")
    result.assert_outcomes(passed=1)
    assert result.ret == 0


@pytest.mark.slow
def test_an_interpreter_without_the_engines_package_says_so(user, tmp_path):
    venv.create(tmp_path / "bare", with_pip=False, symlinks=os.name != "nt")
    user.project(profiles=profile(tmp_path / "bare" / "bin" / "python"))
    result = user.run("--sdperf-engine=other")
    print(result.stdout.str())
    assert result.ret == 4


@pytest.mark.slow
def test_an_interpreter_that_does_not_exist_is_refused_before_the_first_test(user):
    user.project(profiles=profile("venvs/nightly/bin/python"))
    result = user.run("--sdperf-engine=other")
    print(result.stdout.str())
    assert result.ret == 4
    assert "XX" in joined(result.errlines)
