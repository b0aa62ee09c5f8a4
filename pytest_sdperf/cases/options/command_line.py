"""The options on pytest's command line: all of them work, and `pytest --help` shows those that people use."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import pytest

from pytest_sdperf.cases.options.flags import BY_NAME, OPTIONS
from pytest_sdperf.cases.options.option import PREFIX, Option

# In the order of the help.
USUAL = (
    "gpu", "engine", "model", "component", "optimization", "batch-size", "weights", "onnx-dir", "pipeline", "plan",
    "update-baselines", "json", "html",
)  # fmt: skip
_TITLE = f"sdperf, {len(USUAL)} of {len(OPTIONS)} options; `sdperf options` lists all, with their pages of the manual"


class Remember(argparse.Action):
    """Keep a value together with the spelling that gave it; of two spellings the last one wins.

    A plain tuple of texts, because pytest-xdist sends the namespace to its workers.
    """

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[object] | None,
        option_string: str | None = None,
    ) -> None:
        """Store `(text, spelling)`; a switch has the text `true`."""
        text = values if isinstance(values, str) else "true"
        setattr(namespace, self.dest, (text, option_string or self.option_strings[0]))


def add_flag(group: pytest.OptionGroup, option: Option, *, flag: str, text: str = argparse.SUPPRESS) -> None:
    """Add the spelling `flag` of an option to a group of pytest's parser; the help says `text` of it, if that is given.

    Raises:
        ValueError: Somebody else owns the flag.
    """
    value: dict[str, Any] = {"metavar": option.metavar} if option.metavar else {"nargs": 0}
    group.addoption(flag, action=Remember, dest=option.destination, default=None, help=text, **value)


def add_options(parser: pytest.Parser) -> None:
    """Add every option in its long spelling, and as an ini value."""
    shown = parser.getgroup(PREFIX, _TITLE)
    for name in USUAL:
        add_flag(shown, BY_NAME[name], flag=BY_NAME[name].long, text=BY_NAME[name].help.replace("%", "%%"))
    hidden = parser.getgroup(f"{PREFIX}-others")
    for option in OPTIONS:
        if option.flag and option.name not in USUAL:
            add_flag(hidden, option, flag=option.long)
        parser.addini(option.destination, f"Same as {option.long}.", default=None)


def shorten_help(config: pytest.Config) -> None:
    """Take the ini values out of `pytest --help`, which shows every one of every plugin and has no way to hide any.

    They have been read when the help is printed, and nothing runs after it.
    """
    parser = config._parser  # noqa: SLF001 - pytest has no other way
    ours = {option.destination for option in OPTIONS}
    # Before pytest 9 the help goes through a list of the names.
    if hasattr(parser, "_ininames"):
        parser._ininames = [name for name in parser._ininames if name not in ours]  # noqa: SLF001
        return
    for name in ours & getattr(parser, "_inidict", {}).keys():
        del parser._inidict[name]  # noqa: SLF001
