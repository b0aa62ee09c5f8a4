"""`sdperf faults`: the faults that can be planted, and what to type to see one found."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from pytest_sdperf.cli.command import Commands
from pytest_sdperf.core.units import plural
from pytest_sdperf.faults import known


def add_to(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser("faults", help="list the faults that --sdperf-plant can plant")
    parser.add_argument("name", nargs="?", default="", metavar="NAME", help="one of them: say how it is found")
    parser.set_defaults(lines=fault_lines)


def fault_lines(chosen: argparse.Namespace) -> Iterator[str]:
    """Yield one line per fault, by area; of one that is named what to type and what must be said.

    Raises:
        OptionError: There is no such fault.
    """
    if chosen.name:
        yield from _one(chosen.name)
        return
    yield f"{plural(len(known.FAULTS), 'fault')}; `sdperf faults NAME` says how one is found"
    for area in known.AREAS:
        mine = [fault for fault in known.FAULTS.values() if fault.area == area]
        yield ""
        yield f"{area} ({len(mine)})"
        for fault in mine:
            yield f"  {fault.name}: {fault.about}"


def _one(name: str) -> Iterator[str]:
    fault = known.get(name)
    code = f" [{fault.found.code}]" if fault.found.code else ""
    yield f"{fault.name}: {fault.about}"
    yield f"goes into {fault.place.value}"
    yield f"is found as {fault.found.verdict}{code}, exit status {fault.found.status}; # is a number, ... any text:"
    yield f"  {fault.found.words}"
    if fault.on_gpu:
        yield "needs a GPU: only its driver tells such a thing"
    yield "type:"
    if fault.preparation:
        yield f"  {fault.preparation}"
    yield f"  {fault.command}"
