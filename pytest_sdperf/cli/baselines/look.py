"""`sdperf baselines list`, `show` and `diff`: look, and change nothing."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path

from pytest_sdperf.acceptance.candidates import of_run
from pytest_sdperf.acceptance.refusals import has_words
from pytest_sdperf.acceptance.sessions import Provenance, session_of
from pytest_sdperf.baselines.shipped import measured_folder
from pytest_sdperf.baselines.stored import Baseline, Session
from pytest_sdperf.checks.pipelines.tables.stored import diff_lines, list_lines, show_lines
from pytest_sdperf.cli.baselines.places import Places, existing, files_in, is_results
from pytest_sdperf.cli.command import Commands
from pytest_sdperf.core.errors import BaselineError
from pytest_sdperf.report.results import SavedResults, read_results


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
    """Yield what the baselines, those that come with the project and the candidates of this project hold."""
    places = Places(chosen)
    found = 0
    for path, baseline in files_in(places.baselines):
        found += 1
        yield from list_lines(str(path), baseline)
    if not found:
        yield f"{places.baselines}: no baseline yet"
    for path, baseline in _shipped(places):
        yield from list_lines(f"{_about_shipped(baseline)}, {path}", baseline)
    for path, kept in files_in(places.state.candidates):
        for which, last in (("the last run", True), ("earlier runs", False)):
            if (candidates := of_run(kept, last=last)).cases:
                yield from list_lines(f"candidates of {which} that nobody has accepted, {path}", candidates)


def show_cases(chosen: argparse.Namespace) -> Iterator[str]:
    """Yield what is stored about the cases that are meant.

    Raises:
        BaselineError: There is none.
    """
    places, words = Places(chosen), chosen.case.split()
    files = [("", baseline) for _, baseline in files_in(places.baselines)]
    files += [(f"{_about_shipped(baseline)}: {path}", baseline) for path, baseline in _shipped(places)]
    meant = [(about, one) for about, file in files for one in file.cases.values() if has_words(one.case, words)]
    if not meant:
        raise BaselineError(
            f"no case of {places.baselines}, and none that is shipped with pytest_sdperf, has all of {chosen.case!r} "
            f"in its key. See `sdperf baselines list` for the keys."
        )
    for about, case in meant:
        yield from show_lines(case, about)


def _shipped(places: Places) -> Iterator[tuple[Path, Baseline]]:
    """Yield the files that come with the project; those that are the project's own are listed as such."""
    folder = measured_folder()
    if folder.resolve() != places.baselines.resolve():
        yield from files_in(folder)


def _about_shipped(baseline: Baseline) -> str:
    """Say whom such a file judges, because hardly anybody who reads of it is one of them."""
    return f"shipped with pytest_sdperf, judges only machines of its own pool ({baseline.machine['pool']})"


def diff_files(chosen: argparse.Namespace) -> Iterator[str]:
    """Yield how two files differ."""
    second = chosen.second or Places(chosen).state.candidates_of(chosen.first.stem)
    yield from diff_lines(_sessions(chosen.first), _sessions(second))


def _sessions(path: Path) -> Mapping[str, Session]:
    """Return the newest session of each case, of a baseline file or of results."""
    if is_results(path, unreadable=False):
        return results_sessions(read_results(path))
    return {key: stored.last for key, stored in existing(path).cases.items()}


def results_sessions(saved: SavedResults) -> dict[str, Session]:
    """Return what results would become if they were accepted: case key -> session; what failed has none."""
    origin = Provenance(saved.run.slug, saved.run.machine, saved.date, saved.run.commit)
    return {
        report.case.key: session_of(report.measurement, origin)
        for report in saved.reports
        if report.measurement is not None and (report.measurement.samples or report.measurement.out_of_memory)
    }
