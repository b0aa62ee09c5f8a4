"""Whole runs of the suites in a folder that all tests of a session share: what one of them built serves the others."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import kept_calibration
import pytest

ROOT = Path(__file__).parents[1]
# A shared machine may make a call nearly twice as long; ten times as long is found all the same.
PATIENT = "-osdperf_min_effect=0.9"


@pytest.fixture(scope="session")
def suites_folder(tmp_path_factory, shared_folder) -> Path:
    """A folder with the suites, where runs share baselines and state, and builds with those of other processes."""
    # pytest runs inside this process, which can load such a library only once: before `pytester` notes what is loaded.
    import onnx  # noqa: F401
    import scipy.stats  # noqa: F401

    folder = tmp_path_factory.mktemp("runs")
    shutil.copytree(ROOT / "suites", folder / "suites", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "cache").symlink_to(shared_folder("suites-cache"))
    return folder


@pytest.fixture
def type_in(suites_folder, shared_folder, pytester, monkeypatch) -> Callable[..., pytest.RunResult]:
    """Type a command in that folder; pytest runs in this process, its workers do not."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.setenv(kept_calibration.VARIABLE, str(shared_folder("calibrations")))
    monkeypatch.chdir(suites_folder)

    def run(command: str, *more: str) -> pytest.RunResult:
        _, *words = shlex.split(command.replace("--engine=ort-cuda", "--engine=stand-in"))
        fake = ["fake_gpu"] if "--gpu=auto" in words else []
        plugins = ["pytest_sdperf.plugin", "pytest_sdperf.short_names", "kept_calibration", "no:cacheprovider", *fake]
        # Where a fault begins is told by other tests, and would take longer than all the rest.
        places = ["--sdperf-cache-dir=cache", "--sdperf-state-dir=state", "-osdperf_locate=off"]
        root = f"--rootdir={suites_folder}"
        loaded = [word for name in plugins for word in ("-p", name)]
        return pytester.runpytest_inprocess(*loaded, *words, *places, root, PATIENT, *more, no_reraise_ctrlc=True)

    return run
