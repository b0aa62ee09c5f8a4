"""The end of a run: what became of every case is kept, accepted, written, printed, and turned into an exit status."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping

from pytest_sdperf.acceptance.accept import accept, counts_to_keep
from pytest_sdperf.acceptance.candidates import State, keep_candidates, withdraw
from pytest_sdperf.acceptance.refusals import AcceptOptions
from pytest_sdperf.acceptance.sessions import Provenance
from pytest_sdperf.baselines import counts, published
from pytest_sdperf.baselines.shipped import measured
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.judging.run_status import run_status
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.checks.reporting.line import Line
from pytest_sdperf.core import clock
from pytest_sdperf.core.errors import BaselineError
from pytest_sdperf.core.git import is_tracked
from pytest_sdperf.core.machine.gpu_facts import load_gpus
from pytest_sdperf.core.settings import Settings
from pytest_sdperf.core.tolerances import idle
from pytest_sdperf.plugin.run_results import Results
from pytest_sdperf.plugin.session import Session
from pytest_sdperf.report.explanations import write_explanations
from pytest_sdperf.report.interrupted import interrupted_lines
from pytest_sdperf.report.judged import nothing_lines
from pytest_sdperf.report.results import SavedResults, redacted, results_of, write_results
from pytest_sdperf.report.run_info import RunInfo
from pytest_sdperf.report.terminal import report_lines
from pytest_sdperf.report.unused import Unused, unused_cases, unused_lines

ALTERED = 1  # the exit status of an altered run in which nothing turned red


def conclude(results: Results, session: Session, *, status: int, failed: int, stopped: bool, command: str) -> int:
    """Write, keep and accept what was measured; return the exit status of the run.

    Args:
        results: Of the whole run.
        session: The session.
        status: What pytest would end with.
        failed: Failures that pytest counted, errors at collection included.
        stopped: Whether something ended the run before its last test (`-x`, `--maxfail`).
        command: What the user typed.

    Raises:
        SdperfError: A file cannot be written or trusted.
    """
    settings = session.run.settings
    results.ended = results.summary(settings, status=status, failed=failed, stopped=stopped)
    policy = Policy.of(settings, device_kind=session.run.device_kind)
    date = clock.today_utc()
    if settings.json_file is not None or settings.html_file is not None:
        info = dataclasses.replace(run_info(results, session, command=command), commit=session.run.commit)
        saved = results_of(tuple(results.reports), info, results.ended, policy, settings, date=date)
        _write(saved, results, session)
    if settings.explain_file is not None:
        told = write_explanations(settings.explain_file, results.reports, command=command, date=date)
        results.written = (told,)
    if results.interrupted:
        return status
    unused = _unused(results, session)
    measured = any(report.measurement is not None for report in results.reports)
    accepted = (*_keep_counts(results, settings), *_keep(results, session, date=date, command=command))
    results.written = (*results.written, *accepted)
    if results.finished and measured and not (settings.in_process or settings.altered):
        session.unfinished.drop(report.case for report in results.reports)
    status = run_status(
        # Verdicts count only where they failed their test: an expected failure is none.
        [verdict.outcome for name in results.failed_by_verdict for verdict in results.found[name].verdicts],
        policy=policy,
        other_failures=results.ended.failures > 0,
        nothing_judged=bool(results.nothing_judged),
        unused=bool(unused.found),
    )
    return _altered(results, session, status=status, unused=bool(unused.found)) if settings.altered else status


def _write(saved: SavedResults, results: Results, session: Session) -> None:
    """Write the files of results that were asked for."""
    settings = session.run.settings
    if settings.json_file is not None:
        write_results(settings.json_file, saved)
    if settings.html_file is not None:
        # Nobody else needs a page: eight modules at the start of every run.
        from pytest_sdperf.report.page.merged import PageRun, strips_of
        from pytest_sdperf.report.page.write import write_page

        shown = redacted(dataclasses.replace(saved, reports=tuple(results.reports)))  # with their explanations
        baseline = session.sources.baseline if saved.run.slug else None
        tables: tuple[published.Published, ...] = ()
        with contextlib.suppress(BaselineError):  # the report tells it
            tables = published.beside_baselines(settings.baselines)
        write_page(
            settings.html_file,
            [PageRun(shown, strips=strips_of(shown, settings.images_dir))],
            {saved.run.slug: baseline} if baseline is not None else {},
            option="--sdperf-html",
            published=tables,
            shipped=measured(),
        )


def _altered(results: Results, session: Session, *, status: int, unused: bool) -> int:
    """Say what became of an altered run; return the exit status, which is none of success in any case."""
    alteration = session.run.alteration
    told = alteration.conclusions(results.reports, status=status, unused=unused)
    kept = f"Nothing that {alteration.name} may have touched is kept as a candidate or baseline."
    results.written = (*results.written, kept, *told)
    return status or ALTERED


def _unused(results: Results, session: Session) -> Unused:
    """Return the stored cases that this run did not use; without a test that measures nobody asks for a device."""
    if session.run.settings.other is not None or not results.collected:
        return Unused()
    return unused_cases(session.sources.baseline, results.ended, results.reports)


def _keep(results: Results, session: Session, *, date: str, command: str) -> tuple[str, ...]:
    settings = session.run.settings
    state = State(settings.state_dir, settings.baselines)
    if settings.altered:
        return ()
    if not any(report.measurement is not None for report in results.reports):
        # Nobody may have asked for the device; but what failed here has candidates of earlier runs.
        withdraw(results.reports, state=state)
        return ()
    if settings.in_process:
        return ("Measured inside pytest's own process (sdperf_inprocess): nothing is kept as a candidate or baseline.",)
    run = session.run
    origin = Provenance(slug=run.device().slug, machine=session.machine, date=date, commit=run.commit, command=command)
    if not settings.update_baselines:
        keep_candidates(results.reports, origin=origin, state=state)
        return ()
    accepted = accept(
        results.reports,
        origin=origin,
        sources=session.sources,
        state=state,
        terms=AcceptOptions(reason=settings.reason),
    )
    done = frozenset(accepted.accepted)
    keep_candidates(results.reports, origin=origin, state=state, accepted=done)
    session.unfinished.drop(report.case for report in results.reports if report.case.key in done)
    return accepted.lines


def _keep_counts(results: Results, settings: Settings) -> Iterator[str]:
    """Accept what checks counted, where that was asked for; yield what became of it."""
    kept = counts_to_keep(results.reports, reason=settings.reason) if settings.update_baselines else {}
    for file, found in kept.items():
        yield from counts.record(settings.baselines / file, found, lock_dir=settings.state_dir / "locks")


def summary_lines(
    results: Results, session: Session, *, command: str, width: int, verbosity: int = 0
) -> Iterator[Line]:
    """Yield the terminal report; nothing if no test used our fixtures."""
    ended_by_errors = not results.reports and results.ended.failures > 0  # at collection
    if results.nothing_judged and (ended_by_errors or not results.interrupted):
        yield from nothing_lines(results.nothing_judged, results.skip_reasons, width=width)
    if results.interrupted and not (results.reports or ended_by_errors):
        yield from interrupted_lines((), run_info(results, session, command=command), width=width)
    if not results.reports:
        yield from (Line(text) for text in results.written)
        return
    tables: tuple[published.Published, ...] = ()
    try:
        tables = published.beside_baselines(session.run.settings.baselines)
    except BaselineError as error:  # nothing is judged by them, so what was measured is told all the same
        yield Line(f"no published number is shown: {error}", ("yellow",))
    yield from report_lines(
        results.reports,
        run_info(results, session, command=command),
        width=width,
        unused=unused_lines(_unused(results, session), fails="unused" in session.run.settings.fail_on),
        published=tables,
        shipped=measured(),
        written=results.written,
        verbosity=verbosity,
    )


def run_info(results: Results, session: Session, *, command: str) -> RunInfo:
    """Describe the run as a whole."""
    settings = session.run.settings
    files = [one.counted.file for report in results.reports for one in report.checks.values() if one.counted]
    stored = settings.baselines.joinpath(*files[:1])
    info = RunInfo(
        device="",
        slug="",
        baselines=str(stored),
        command=command,
        remembers_failures=results.remembers_failures,
        updating=settings.update_baselines,
        interrupted=results.interrupted,
        to_measure=_to_measure(results),
        left=results.left,
        tracked=settings.update_baselines and is_tracked(stored),
        altered=session.run.alteration.told,
    )
    if not any(report.case.engine for report in results.reports):
        return info
    device = session.run.device()
    cards = {card.slug: card.family for card in load_gpus().gpus}
    info = dataclasses.replace(
        info,
        device=device.name,
        slug=device.slug,
        family=cards.get(device.slug, ""),
        machine=session.machine,
        devices=max(_devices(results), 1),
        engines=_engines(results.reports),
        tracked=settings.update_baselines and is_tracked(session.sources.own),
        in_process=settings.in_process,
        resumable=0 if results.finished else _resumable(results, session),
        pairs=settings.other is not None,
        idle=idle(session.run.rules, results.collected),
    )
    return info.against(session.sources, results.reports)


def _devices(results: Results) -> int:
    """Return how many devices measured, as several workers of pytest-xdist may."""
    turns = (report.measurement.turn for report in results.reports if report.measurement is not None)
    return len({turn.position for turn in turns if turn is not None})


def _to_measure(results: Results) -> int:
    return len({case.key for case in results.benches.values()})


def _resumable(results: Results, session: Session) -> int:
    if session.run.settings.in_process:  # it takes nothing over; what is there is of another run
        return 0
    measured = {report.case for report in results.reports if report.measurement is not None}
    return sum(map(session.unfinished.holds, measured))


def _engines(reports: list[CaseReport]) -> Mapping[str, Mapping[str, str]]:
    """Return the versions that each engine reported."""
    engines: dict[str, Mapping[str, str]] = {}
    for report in reports:
        if report.case.engine and report.measurement is not None and report.measurement.subject:
            engines[report.case.engine] = report.measurement.subject
    return engines
