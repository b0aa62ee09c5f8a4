"""`sdperf options`: every option of the plugin, of which `pytest --help` shows those that people use."""

from __future__ import annotations

import argparse
import shutil
import textwrap
from collections.abc import Iterator

from pytest_sdperf.cases.options.flags import GROUPS, OPTIONS
from pytest_sdperf.cli.command import Commands

_HEAD = (
    f"{len(OPTIONS)} options. Each can be typed as it stands here; be an ini value of pytest, sdperf_batch_size = 4; "
    "or stand under [tool.sdperf] in pyproject.toml, batch-size = 4. A spelling in brackets works under `sdperf run`, "
    "in a clone of pytest_sdperf, and in projects that ask for it; docs/options.md says how."
)


def add_to(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser("options", help="list every option that pytest takes from pytest_sdperf")
    parser.set_defaults(lines=option_lines)


def option_lines(_: argparse.Namespace) -> Iterator[str]:
    """Yield the options by what they are about: spellings, what each does, and the page that says more."""
    width = shutil.get_terminal_size((100, 24)).columns
    yield from _wrapped(_HEAD, width)
    for title, options in GROUPS.items():
        yield ""
        yield title
        for option in options:
            yield f"  {option.usage}" + (f" (--{option.name})" if option.short else "")
            text = f"{option.help} See docs/{option.page}.md."
            yield from _wrapped(text, width, indent=" " * 6)


def _wrapped(text: str, width: int, *, indent: str = "") -> list[str]:
    return textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
