"""Folders, encodings, switches of Python and orders of tests as people have them: a run says what it says anywhere."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from external_folders import make_unet, write
from onnx import numpy_helper

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
CONFTEST = """
from pytest_sdperf.short_fixtures import *
from tiny_model import TinyModel

def pytest_sdperf_register(catalog):
    catalog.add_model(TinyModel())

def pytest_collection_modifyitems(config, items):
    if config.getoption("order") == "backwards":
        items.reverse()

def pytest_addoption(parser):
    parser.addoption("--order", default="")
"""
TESTS = """
import pytest

pytestmark = pytest.mark.sdperf(components=["unet"])

def test_right(runner, agree):
    agree(runner)

def test_fast(runner, bench):
    bench(runner)
"""
USUAL = (
    "--sdperf-model=tiny", "--sdperf-engine=ort-cpu", "--sdperf-optimization=as-is", "--sdperf-onnx-dir=mein Graph",
    "--sdperf-onnx-reference=ein größerer", "--sdperf-processes=1", "--sdperf-max-processes=1", "-osdperf_locate=off",
    "--sdperf-cache-dir=ein Lager", "--sdperf-state-dir=Zustände", "--sdperf-json=Ergebnis für mich.json",
    "--sdperf-update-baselines", "--sdperf-reason=größer als früher", "-p", "no:cacheprovider",
)  # fmt: skip
# Name -> switches of Python, environment, further arguments.
ODD = {
    "narrow, backwards": ([], {"COLUMNS": "40"}, ["--order=backwards"]),
    "without assertions and documentation, in another locale": (["-OO"], {"LC_ALL": "C", "LANG": "C"}, []),
    "without a terminal": ([], {}, ["-p", "no:terminal"]),
}


@pytest.fixture
def project(tmp_path):
    """A project in a folder of an odd name, whose files end their lines as Windows does."""
    folder = tmp_path / "Größe, 100 % & mehr"
    folder.mkdir()
    for name, text in (
        ("conftest.py", CONFTEST),
        ("test_größe.py", TESTS),
        ("pytest.ini", "[pytest]\nxfail_strict = true\n"),
        ("pyproject.toml", "[tool.sdperf]\npool = 'gestell-3'\n"),
    ):
        (folder / name).write_text(text, encoding="utf-8", newline="\r\n")
    for name in ("mein Graph", "ein größerer"):
        write(folder / name, "unet", make_unet())
    return folder


def run(folder, name):
    switches, environment, more = ODD[name]
    env = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "LC_", "LANG"))}
    env |= {"PYTHONPATH": os.pathsep.join([str(HERE.parent), str(HERE)]), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(
        [sys.executable, *switches, "-m", "pytest", "-p", "pytest_sdperf.plugin", *USUAL, *more],
        cwd=folder, env={**env, **environment}, capture_output=True, check=False, timeout=300,
    )  # fmt: skip


def saved_of(folder):
    return json.loads((folder / "Ergebnis für mich.json").read_text(encoding="utf-8"))


def reports_of(folder):
    found = saved_of(folder)["reports"]
    return {one["nodeid"].rpartition("::")[2].partition("[")[0]: one for one in found}


@pytest.mark.parametrize("name", ODD)
def test_what_is_right_is_compared_measured_and_kept(project, name):
    done = run(project, name)
    assert (done.returncode, b"Traceback" in done.stdout + done.stderr) == (0, False), done.stdout + done.stderr
    found = reports_of(project)
    assert {verdict["outcome"] for verdict in found["test_fast"]["verdicts"]} == {"NEW"}
    (agreement,) = found["test_right"]["checks"]["agreement"]["finding"]
    assert agreement["error"] <= agreement["limit"]
    assert "--sdperf-onnx-reference=ein größerer" in shlex.split(saved_of(project)["run"]["command"])
    (baseline,) = (project / "baselines").glob("*.json")
    (key,) = json.loads(baseline.read_text(encoding="utf-8"))["cases"]
    assert key.endswith(f"weights={found['test_fast']['case']['weights']} batch_size=1 height=128 width=128")


@pytest.mark.parametrize("name", ODD)
def test_what_is_wrong_fails_all_the_same(project, name):
    wrong = make_unet()
    weight = numpy_helper.to_array(wrong.graph.initializer[0])
    wrong.graph.initializer[0].CopyFrom(numpy_helper.from_array(weight * weight.dtype.type(1.01), "weight"))
    write(project / "mein Graph", "unet", wrong)
    assert run(project, name).returncode == 1
    (agreement,) = reports_of(project)["test_right"]["checks"]["agreement"]["finding"]
    assert agreement["error"] > agreement["limit"]
    assert not list(project.glob("baselines/*.json"))
