"""Short option names for this repository: `pytest suites --gpu=a100 --engine=ort-cuda`."""

from __future__ import annotations

import pytest

from pytest_sdperf.short_names import add_short_names


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the short spellings of the suite's options."""
    add_short_names(parser)
