"""`sdperf baselines accept`: make a baseline of candidates of this machine, or of results that CI has kept."""

from __future__ import annotations

import argparse
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path

import msgspec

from pytest_sdperf.acceptance.accept import Acceptance, accept, counts_to_keep
from pytest_sdperf.acceptance.candidates import of_run
from pytest_sdperf.acceptance.refusals import AcceptOptions
from pytest_sdperf.acceptance.sessions import Provenance, measurement_of
from pytest_sdperf.baselines import counts, privacy
from pytest_sdperf.baselines.sources import BaselineFiles
from pytest_sdperf.baselines.stored import DRIVER, Baseline, Machine, StoredCase
from pytest_sdperf.checks.judging.fitness import invalid
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.judging.verdict import judge
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.cli.baselines.places import Places, files_in, is_results
from pytest_sdperf.cli.command import Commands
from pytest_sdperf.cli.gate_run import judge_saved
from pytest_sdperf.core.errors import ResultsError
from pytest_sdperf.core.units import plural
from pytest_sdperf.core.values.outcomes import Verdict
from pytest_sdperf.report.results import SavedResults, read_results

REFUSED = 1
LIMITS_UNKNOWN = (
    "An earlier version of pytest-sdperf kept it, and not how strictly it was judged. Measure it again, or accept "
    "results of --sdperf-json."
)


def add_to(actions: Commands) -> None:
    """Add the action."""
    parser = actions.add_parser("accept", help="make a baseline of what was measured")
    parser.add_argument(
        "results",
        type=Path,
        nargs="*",
        metavar="RESULTS",
        help="what --sdperf-json wrote, or a folder of such files; default: what the last run measured here",
    )
    parser.add_argument(
        "--reason", default="", metavar="TEXT", help="why a regression is accepted, or cases start anew; stored"
    )
    parser.add_argument(
        "--re-anchor",
        action="store_true",
        help="replace the fixed points against slow drift, too; with --reason, start anew: under another driver, or "
        "where a change could not be told from noise",
    )
    parser.add_argument(
        "--only", default="", metavar="CASE", help="accept these alone: words of the key, as of `show`: 'unet fp16'"
    )
    parser.add_argument("--new-only", action="store_true", help="accept only cases that are not stored yet")
    Places.add_options(parser)
    parser.set_defaults(lines=accept_results)


def accept_results(chosen: argparse.Namespace) -> Generator[str, None, int]:
    """Yield what became of each case; return 1 where one was refused.

    Raises:
        ResultsError: There is nothing to accept, or results are not those of a whole run.
        BaselineError: A file cannot be trusted or written.
    """
    places = Places(chosen)
    done = _of_files(chosen, places) if chosen.results else _of_candidates(chosen, places)
    found, refused, left = False, False, 0
    for acceptance in done:
        yield from acceptance.lines
        found |= bool(acceptance.accepted or acceptance.refused)
        left += acceptance.left
        refused |= bool(acceptance.refused)
    if left and not found and chosen.only and not chosen.new_only:
        raise ResultsError(
            f"no measured case has all of {chosen.only!r} in its key. See `sdperf baselines list` for the keys of "
            f"candidates, and `sdperf baselines diff` for those of results."
        )
    if not (found or left):
        named = ", ".join(map(str, chosen.results))
        raise ResultsError(
            f"there is nothing to accept in {named}: nothing was measured. Give results of a run that measures."
        )
    if left:
        yield f"left as they were: {left}"
    return REFUSED if refused else 0


def _of_files(chosen: argparse.Namespace, places: Places) -> Iterator[Acceptance]:
    named, other = results_in(chosen.results)
    found = [(path, read_results(path)) for path in named]
    for path, saved in found:  # every file first: nothing is written where one of them cannot be accepted
        check_whole(saved, path)
    if other:
        yield Acceptance((f"passed over, because they are no results: {', '.join(map(str, other))}",), (), {})
    for _, saved in sorted(found, key=lambda one: one[1].date):
        yield from _of_results(saved, chosen, places)


def _of_results(saved: SavedResults, chosen: argparse.Namespace, places: Places) -> Iterator[Acceptance]:
    run, terms = saved.run, _terms(chosen)
    sources = places.sources(run.slug, run.machine)
    reports = judge_saved(saved, sources, policy=saved.policy, any_driver=terms.re_anchor).reports
    if saved.summary.measured:
        origin = Provenance(run.slug, run.machine, saved.date, run.commit, _typed(run.command))
        yield accept(reports, origin=origin, sources=sources, state=places.state, terms=terms)
    kept = counts_to_keep(filter(lambda report: terms.mean(report.case), reports), reason=terms.reason)
    for file, found in kept.items():
        known = counts.read(places.baselines / file) if terms.new_only else {}
        new = {key: one for key, one in found.items() if key not in known}
        yield Acceptance(counts.record(places.baselines / file, new, lock_dir=places.state.locks), tuple(new), {})


def _typed(command: str) -> str:
    """Return a stored command as it is typed here."""
    return privacy.restored(command, privacy.identity())


def _terms(chosen: argparse.Namespace) -> AcceptOptions:
    return AcceptOptions(chosen.reason, "--reason", chosen.re_anchor, chosen.only, chosen.new_only)


def results_in(given: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """Return the files of results that paths name: themselves, or those below a folder (artifacts of CI jobs).

    Also return the JSON files below folders that are evidently something else. One that cannot be read may be damaged
    results, and counts as such.

    Raises:
        ResultsError: A folder holds none.
    """
    found: list[Path] = []
    other: list[Path] = []
    for path in given:
        below = [file for file in sorted(path.rglob("*.json")) if not file.is_dir()] if path.is_dir() else []
        results = [file for file in below if is_results(file, unreadable=True)] if path.is_dir() else [path]
        left = [file for file in below if file not in results]
        if not results:
            held = f"; the JSON files in it are something else: {', '.join(map(str, left))}" if left else ""
            raise ResultsError(
                f"{path} holds no results{held}. Give a file that a run wrote with --sdperf-json=FILE, or a folder of "
                f"such files."
            )
        found += results
        other += left
    return found, other


def check_whole(saved: SavedResults, path: Path) -> None:
    """Refuse results that the run itself would not have accepted.

    Raises:
        ResultsError: The run did not come to its end, measured inside pytest's own process, was an A/B, or was
            altered on purpose.
    """
    if saved.run.altered:
        raise ResultsError(
            f"results {path} are of a run that was altered on purpose. {saved.run.altered} Run it without that, and "
            f"give those."
        )
    if saved.run.pairs:
        raise ResultsError(
            f"results {path} are of an A/B: its second side is judged by its first, and neither by a baseline. Run it "
            f"without --sdperf-ab, and give those."
        )
    if not saved.summary.ended:
        raise ResultsError(
            f"results {path} are of a run that ended before its last test (exit status {saved.summary.status} of "
            f"pytest). Run it to its end, and accept those."
        )
    if saved.run.in_process:
        raise ResultsError(
            f"results {path} were measured inside pytest's own process (sdperf_inprocess), which is no way to "
            f"measure. Run it without that option, and accept those."
        )


def _of_candidates(chosen: argparse.Namespace, places: Places) -> Iterator[Acceptance]:
    files = [(path, kept) for path, kept in files_in(places.state.candidates) if kept.cases]
    if not files:
        raise ResultsError(
            f"there is nothing to accept: no run whose baselines are in {places.baselines} has left a candidate. "
            f"Measure first, or type this where the run was started, with its --baselines and --state-dir; results of "
            f"another machine are given as a file of --sdperf-json."
        )
    terms, earlier = _terms(chosen), 0
    if not chosen.only:  # what is named may be of any run
        earlier = sum(len(of_run(kept, last=False).cases) for _, kept in files)
        files = [(path, now) for path, kept in files if (now := of_run(kept, last=True)).cases]
    if not files:
        raise ResultsError(
            f"there is nothing to accept: the last run measured nothing that may be. Earlier runs left "
            f"{plural(earlier, 'candidate')}: add --only=WORDS of the key to accept what you mean; `sdperf baselines "
            f"list` shows the keys."
        )
    if earlier:
        yield Acceptance((f"left, because earlier runs measured them: {earlier}; --only=WORDS names them",), (), {})
    for path, kept in files:
        # Each with the date and the commit of its own.
        for (date, commit, command), cases in sorted(_by_origin(kept).items()):
            sources = places.sources(path.stem, kept.machine)
            reports = [_report(stored, kept.machine, sources, any_driver=terms.re_anchor) for stored in cases]
            origin = Provenance(path.stem, kept.machine, date, commit, _typed(command))
            yield accept(reports, origin=origin, sources=sources, state=places.state, terms=terms)


def _by_origin(kept: Baseline) -> dict[tuple[str, str, str], list[StoredCase]]:
    found: dict[tuple[str, str, str], list[StoredCase]] = {}
    for _, stored in sorted(kept.cases.items()):
        last = stored.last
        found.setdefault((last.date, last.commit, last.command or ""), []).append(stored)
    return found


def _report(kept: StoredCase, machine: Machine, sources: BaselineFiles, *, any_driver: bool) -> CaseReport:
    """Judge a candidate as its run did, by what is stored now: somebody may have accepted others in the meantime."""
    measurement = measurement_of(kept.last, kept.case)
    stored, differences = sources.stored(kept.case, machine)
    if any_driver:
        differences.pop(DRIVER, None)
    try:
        policy = msgspec.convert(kept.last.policy, Policy)
    except msgspec.ValidationError:  # an earlier version kept none
        policy = None
    verdicts: tuple[Verdict, ...] = (invalid("limits-unknown", LIMITS_UNKNOWN),)
    if policy is not None:
        verdicts = judge(measurement, stored, policy=policy, differences=differences)
    return CaseReport(f"candidate of {kept.last.date}", kept.case, measurement, verdicts=verdicts, policy=policy)
