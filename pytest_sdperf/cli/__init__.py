"""The console command `sdperf`: its commands have a module each, and this one puts them together."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Iterator, Sequence

from pytest_sdperf import __version__
from pytest_sdperf.cli import baselines, cache, doctor, faults, gate, options, report
from pytest_sdperf.cli.run import run
from pytest_sdperf.core.errors import SdperfError

_COMMANDS = (options, gate, report, baselines, cache, doctor, faults)
_USAGE_ERROR = 4
_NOBODY_READS = 141  # what a shell says of a program that its reader has ended


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status.

    Args:
        arguments: Without the program's name; those of this process by default.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # what a terminal cannot show ends no command
    try:
        try:
            return _status(list(sys.argv[1:] if arguments is None else arguments))
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        _print_no_more()
        return _NOBODY_READS


def _status(given: list[str]) -> int:
    # Before argparse: every option after `run` is pytest's, --help too.
    if given[:1] == ["run"]:
        return run(given[1:])
    chosen = parser().parse_args(given)
    try:
        return _printed(chosen.lines(chosen))
    except SdperfError as error:
        print(f"ERROR: {error}", file=sys.stderr)
        return _USAGE_ERROR


def parser() -> argparse.ArgumentParser:
    """Return the parser of every command."""
    whole = argparse.ArgumentParser(prog="sdperf", description=__doc__, allow_abbrev=False)
    whole.add_argument("--version", action="version", version=f"pytest-sdperf {__version__}")
    commands = whole.add_subparsers(required=True, metavar="COMMAND")
    commands.add_parser("run", help="run the installed suites; takes pytest's options, with the short names")
    for command in _COMMANDS:
        command.add_to(commands)
    return whole


def _printed(lines: Iterator[str]) -> int:
    """Print what a command yields; return the exit status that it returns, 0 where it returns none."""
    while True:
        try:
            print(next(lines), flush=True)
        except StopIteration as end:
            return int(end.value or 0)
        except BrokenPipeError:
            _print_no_more()  # the exit status is still to be found out


def _print_no_more() -> None:
    """Let what is still printed go nowhere: a reader such as `head` has seen enough."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
