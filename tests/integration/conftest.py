from __future__ import annotations

from pathlib import Path

import pytest
from user_project import ACME, User


@pytest.fixture
def acme(user) -> User:
    """The same person, with the engines of a third party, which start in a moment and need no export."""
    user.project(conftest=ACME, options={"engine": "acme"})
    return user


@pytest.fixture(scope="session")
def cache(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def user(pytester, monkeypatch, cache) -> User:
    for name in ("PYTEST_ADDOPTS", "OMP_NUM_THREADS", "PYTEST_DISABLE_PLUGIN_AUTOLOAD", "PYTHONPATH"):
        monkeypatch.delenv(name, raising=False)
    return User(pytester, cache)
