"""`sdperf baselines prune`: remove cases that nothing measures any more, and old sessions. Looks only, by default."""

from __future__ import annotations

import argparse
from collections.abc import Generator, Mapping
from pathlib import Path

from pytest_sdperf.acceptance.candidates import keep_newest
from pytest_sdperf.baselines.files import update
from pytest_sdperf.baselines.stored import Baseline, file_of
from pytest_sdperf.baselines.unused import unused
from pytest_sdperf.cli.baselines.accept import check_whole
from pytest_sdperf.cli.baselines.places import Places, existing, files_in
from pytest_sdperf.cli.command import Commands
from pytest_sdperf.cli.project import existing_folder
from pytest_sdperf.core.errors import OptionError, ResultsError
from pytest_sdperf.core.units import plural
from pytest_sdperf.report.results import read_results


def add_to(actions: Commands) -> None:
    """Add the action."""
    parser = actions.add_parser("prune", help="remove cases that nothing measures any more, and old sessions")
    parser.add_argument(
        "--unused-in",
        type=Path,
        metavar="RESULTS.json",
        help="remove stored cases that the run of these did not collect",
    )
    parser.add_argument("--keep", type=int, metavar="NUMBER", help="keep that many sessions of each case, the newest")
    parser.add_argument("--write", action="store_true", help="do it; without this, only say what would be done")
    Places.add_options(parser)
    parser.set_defaults(lines=prune)


def prune(chosen: argparse.Namespace) -> Generator[str, None, None]:
    """Yield what is removed, or would be.

    Raises:
        OptionError: Nothing was named, or no session would be left.
        ResultsError: The results do not tell what is unused.
        BaselineError: A file cannot be trusted or written.
    """
    if chosen.keep is None and chosen.unused_in is None:
        raise OptionError("nothing is named to remove. Type --unused-in=RESULTS.json, --keep=NUMBER, or both.")
    if chosen.keep is not None and chosen.keep < 1:
        raise OptionError(f"--keep={chosen.keep} leaves no session. Allowed: a whole number from 1.")
    if chosen.baselines is not None:
        existing_folder(chosen.baselines)
    places = Places(chosen)
    gone = _unused(chosen.unused_in, places) if chosen.unused_in else {}
    for path, before in files_in(places.baselines):
        after = _pruned(before, gone.get(path, frozenset()), keep=chosen.keep)
        if after == before:
            continue
        for key, stored in sorted(before.cases.items()):
            left = after.cases.get(key)
            if left is None:
                yield f"- {key}"
            elif left != stored:
                yield f"~ {key}: {plural(len(stored.sessions) - len(left.sessions), 'old session')}"
        if chosen.write:
            _write(path, gone.get(path, frozenset()), chosen.keep, places)
        yield f"{path}: {'written' if chosen.write else 'nothing was written; add --write to do it'}"


def _unused(results: Path, places: Places) -> Mapping[Path, frozenset[str]]:
    """Return the keys that a whole, unnarrowed run did not collect, by file."""
    saved = read_results(results)
    check_whole(saved, results)
    if saved.summary.narrowed or not saved.summary.measured:
        why = saved.summary.narrowed or "it measured nothing"
        raise ResultsError(
            f"results {results} do not tell what is unused: {why}. Give those of a run that measures, without -k, -m, "
            f"--lf and node ids."
        )
    path = file_of(places.baselines, saved.run.slug)
    found = unused(existing(path), saved.summary.collected, saved.summary.asked)
    return {path: frozenset(stored.case.key for stored in found)}


def _write(path: Path, gone: frozenset[str], keep: int | None, places: Places) -> None:
    def change(present: Baseline | None) -> Baseline:
        return _pruned(present or Baseline(machine={}), gone, keep=keep)

    update(path, change, lock_dir=places.state.locks)


def _pruned(baseline: Baseline, gone: frozenset[str], *, keep: int | None) -> Baseline:
    cases = {key: stored for key, stored in baseline.cases.items() if key not in gone}
    if keep is not None:
        cases = {key: keep_newest(stored, keep) for key, stored in cases.items()}
    return Baseline(machine=baseline.machine, cases=cases)
