"""`sdperf run`: the suites, with pytest and the short option names."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_sdperf.cli.project import plugin_name
from pytest_sdperf.core.source_tree import SUITES


def run(arguments: Sequence[str]) -> int:
    """Run the suites with pytest and the short option names."""
    return int(pytest.main(["-p", plugin_name(), "-p", "pytest_sdperf.short_names", "--pyargs", SUITES, *arguments]))
