"""`sdperf faults`: the faults that can be planted, and what to type to see one found."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from pytest_sdperf.cli.command import Commands


def add_to(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser("faults", help="list the faults that --sdperf-plant can plant")
    parser.add_argument("name", nargs="?", default="", metavar="NAME", help="one of them: say how it is found")
    parser.set_defaults(lines=_lines)


def _lines(chosen: argparse.Namespace) -> Iterator[str]:
    from pytest_sdperf.faults.listing import fault_lines  # only who asks for them imports them

    return fault_lines(chosen.name)
