"""The short spellings (`--gpu`, `--engine`, ...), for a project that owns its command line.

Used by the `conftest.py` of this repository, and as a plugin (`-p pytest_sdperf.short_names`) by `sdperf run`.

PYTEST_DONT_REWRITE: it asserts nothing that a user should see, and may be imported before pytest loads it.
"""

from __future__ import annotations

import argparse

import pytest

from pytest_sdperf.cases.options.command_line import add_flag
from pytest_sdperf.cases.options.flags import OPTIONS
from pytest_sdperf.cases.options.option import PREFIX

# The help shows one of them.
_EXAMPLE = "Same as --sdperf-gpu; here the other options may be typed without sdperf-, too."


def add_short_names(parser: pytest.Parser) -> None:
    """Add `--NAME` beside `--sdperf-NAME` for every option that has a short spelling; a second call adds nothing.

    Example, in a root `conftest.py`::

        def pytest_addoption(parser):
            add_short_names(parser)
    """
    group = parser.getgroup(f"{PREFIX}-short", "sdperf, short spellings")
    # The conftest and `sdperf run` may both ask; pytest refuses a flag that the group holds already.
    ours = {name for present in group.options for name in present.names()}
    for option in OPTIONS:
        flag = f"--{option.name}"
        if option.short and flag not in ours:
            add_flag(group, option, flag=flag, text=_EXAMPLE if option.name == "gpu" else argparse.SUPPRESS)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the short spellings when this module is loaded as a plugin."""
    add_short_names(parser)
