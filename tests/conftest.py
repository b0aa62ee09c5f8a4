from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

HERE = Path(__file__).parent

# Warnings that third-party libraries raise on their own account, as pytest filters that name the library.
TOLERATED_WARNINGS: tuple[str, ...] = ()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # A marker and not an ini setting: it reaches the tests of this folder however pytest was started, and never the
    # suites or a user's run. It goes in front of the others, so that a test's own filter still wins.
    strict = pytest.mark.filterwarnings("error", *TOLERATED_WARNINGS)
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(strict, append=False)
