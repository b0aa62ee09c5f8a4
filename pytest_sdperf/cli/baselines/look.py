"""`sdperf baselines list`, `show` and `diff`: look, and change nothing."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path

from pytest_sdperf.acceptance.candidates import candidates_file
from pytest_sdperf.acceptance.sessions import Origin, session_of
from pytest_sdperf.acceptance.terms import has_words
from pytest_sdperf.baselines.stored import Session
from pytest_sdperf.cli.baselines.places import Places, existing, files_in, is_results
from pytest_sdperf.cli.command import Commands
from pytest_sdperf.errors import BaselineError
from pytest_sdperf.report.results import SavedResults, read_results
from pytest_sdperf.report.stored import diff_lines, list_lines, show_lines


def add_to(actions: Commands) -> None:
    """Add the actions."""
    listing = actions.add_parser("list", help="say which files there are, and which cases they hold")
    listing.set_defaults(lines=list_files)
    show = actions.add_parser("show", help="show the raw samples and versions of every case that is meant")
    show.add_argument("case", metavar="CASE", help="words of its key, all of which must be in it: 'unet fp16'")
    show.set_defaults(lines=show_cases)
    diff = actions.add_parser("diff", help="compare two files case by case")
    diff.add_argument("first", type=Path, metavar="A", help="a baseline file, or results of --sdperf-json")
    diff.add_argument(
        "second", type=Path, nargs="?", metavar="B", help="the same; default: what this machine has measured since"
    )
    diff.set_defaults(lines=diff_files)
    for parser in (listing, show, diff):
        Places.add_options(parser)


def list_files(chosen: argparse.Namespace) -> Iterator[str]:
    """Yield what the baselines and the candidates of this machine hold."""
    places = Places(chosen)
    found = 0
    for path, baseline in files_in(places.baselines):
        found += 1
        yield from list_lines(str(path), baseline)
    if not found:
        yield f"{places.baselines}: no baseline yet"
    for path, baseline in files_in(places.candidates):
        if baseline.cases:
            yield from list_lines(f"candidates that nobody has accepted, {path}", baseline)


def show_cases(chosen: argparse.Namespace) -> Iterator[str]:
    """Yield what is stored about the cases that are meant.

    Raises:
        BaselineError: There is none.
    """
    places, words = Places(chosen), chosen.case.split()
    stored = [case for _, baseline in files_in(places.baselines) for case in baseline.cases.values()]
    meant = [one for one in stored if has_words(one.case, words)]
    if not meant:
        raise BaselineError(
            f"no case of {places.baselines} has all of {chosen.case!r} in its key. See `sdperf baselines list` for the "
            f"keys."
        )
    for case in meant:
        yield from show_lines(case)


def diff_files(chosen: argparse.Namespace) -> Iterator[str]:
    """Yield how two files differ."""
    second = chosen.second or candidates_file(Places(chosen).state, chosen.first.stem)
    yield from diff_lines(_sessions(chosen.first), _sessions(second))


def _sessions(path: Path) -> Mapping[str, Session]:
    """Return the newest session of each case, of a baseline file or of results."""
    if is_results(path):
        return results_sessions(read_results(path))
    return {key: stored.last for key, stored in existing(path).cases.items()}


def results_sessions(saved: SavedResults) -> dict[str, Session]:
    """Return what results would become if they were accepted: case key -> session; what failed has none."""
    origin = Origin(saved.run.slug, saved.run.machine, saved.date, saved.run.commit)
    return {
        report.case.key: session_of(report.measurement, origin)
        for report in saved.reports
        if report.measurement is not None and (report.measurement.samples or report.measurement.out_of_memory)
    }
