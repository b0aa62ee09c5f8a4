"""`sdperf run`: the suites, with pytest and the short option names."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

import pytest

from pytest_sdperf.cli.project import plugin_name

SUITES = "pytest_sdperf.suites"


def run(arguments: Sequence[str]) -> int:
    """Run the suites with pytest and the short option names."""
    return int(pytest.main(["-p", plugin_name(), "-p", "pytest_sdperf.short_names", *suites(), *arguments]))


def suites() -> list[str]:
    """Return the arguments that name the suites: a package of the wheel, or the folder of a source tree."""
    if importlib.util.find_spec(SUITES) is not None:
        return ["--pyargs", SUITES]
    return [str(Path(__file__).resolve().parents[2] / "suites")]
