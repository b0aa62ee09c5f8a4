from __future__ import annotations

import os
from pathlib import Path

import kept_calibration
import pytest
from user_project import ACME, User


@pytest.fixture
def acme(user) -> User:
    """The same person, with the engines of a third party, which start in a moment and need no export."""
    user.project(conftest=ACME, options={"engine": "acme"})
    return user


@pytest.fixture(scope="session")
def cache(shared_folder) -> Path:
    return shared_folder("integration-cache")


@pytest.fixture
def user(pytester, monkeypatch, cache, shared_folder) -> User:
    for name in os.environ:
        # Neither how these tests are run nor what their user's machine is set to reaches the project.
        if name.startswith("PYTEST_") or name == "PYTHONPATH":
            monkeypatch.delenv(name)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # more of them only wait for each other, and for the tests beside these
    # In the order of the file, installed or not. Importing the other two takes a third of a small run, and they are
    # beside the plugin whenever these tests are run.
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:randomly -p no:hypothesispytest -p no:anyio -p kept_calibration")
    (pytester.path / "kept_calibration.py").write_text(Path(kept_calibration.__file__).read_text())
    monkeypatch.setenv(kept_calibration.VARIABLE, str(shared_folder("calibrations")))
    return User(pytester, cache)
