"""The end of a run: what became of every case is kept, accepted, written, printed, and turned into an exit status."""

from __future__ import annotations

import dataclasses
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from pytest_sdperf import clock
from pytest_sdperf.acceptance import accept as acceptance
from pytest_sdperf.baselines import fusions, published
from pytest_sdperf.baselines import stored as baselines
from pytest_sdperf.delivery import DisagreementFailed, VerdictFailed
from pytest_sdperf.errors import WorkerError
from pytest_sdperf.gpu_facts import load_gpus
from pytest_sdperf.judging.fitness import ended
from pytest_sdperf.judging.policy import Policy
from pytest_sdperf.judging.verdict import exit_status
from pytest_sdperf.outcomes import Outcome, Verdict
from pytest_sdperf.report.case_report import CaseReport
from pytest_sdperf.report.explanations import write_explanations
from pytest_sdperf.report.line import Line
from pytest_sdperf.report.results import write_results
from pytest_sdperf.report.run_info import RunInfo, changes_of, sessions_of
from pytest_sdperf.report.terminal import report_lines
from pytest_sdperf.session import Session
from pytest_sdperf.values import Case, Failure

JUDGED = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
INVALID_RUN = 10  # as for a case that is INVALID


@dataclasses.dataclass
class Results:
    """What the tests of a run reported, in their order.

    Attributes:
        found: Node id -> what the test found out, for tests that used our fixtures; of a test that ran twice the last.
        failed_by_verdict: Node ids of tests that failed because of a verdict, which has an exit status of its own.
        collected: Cases that tests with `bench` collected, before any deselection.
        selected: Number of tests with `bench` that were selected to run.
        deselected: Whether something took tests away (`-k`, `-m`, `--lf`, node ids).
        written: Lines about what was written: to the baseline, or to a file that was asked for.
    """

    found: dict[str, CaseReport] = dataclasses.field(default_factory=dict)
    failed_by_verdict: set[str] = dataclasses.field(default_factory=set)
    collected: tuple[Case, ...] = ()
    selected: int = 0
    deselected: bool = False
    written: tuple[str, ...] = ()

    @property
    def reports(self) -> list[CaseReport]:
        """What was found out, in the order of the tests."""
        return list(self.found.values())

    @property
    def nothing_measured(self) -> bool:
        """Whether tests that measure were selected, and none of them came to measure."""
        return self.selected > 0 and not any(report.measured for report in self.reports)

    def add(self, report: pytest.TestReport) -> None:
        """Take over what a test recorded; it arrives as JSON, also from a worker of pytest-xdist."""
        data = getattr(report, "sdperf", None)
        if data is None:
            return
        found = CaseReport.from_json(data["report"])
        self.found[found.nodeid] = found
        self.failed_by_verdict.discard(found.nodeid)
        if report.failed and data["by_verdict"]:
            self.failed_by_verdict.add(found.nodeid)


def conclude(results: Results, session: Session, *, status: int, failed: int, command: str, root: Path) -> int:
    """Write, keep and accept what was measured; return the exit status of the run.

    Args:
        results: Of the whole run.
        session: The session.
        status: What pytest would end with.
        failed: Failures that pytest counted, errors at collection included.
        command: What the user typed.
        root: Folder of the project, for its commit.

    Raises:
        SdperfError: A file cannot be written or trusted.
    """
    settings = session.run.settings
    if settings.json_file is not None:
        info = run_info(results, session, command=command)
        write_results(settings.json_file, results.reports, info, settings, date=clock.today_utc())
    if settings.explain_file is not None:
        told = write_explanations(settings.explain_file, results.reports, command=command, date=clock.today_utc())
        results.written = (told,)
    if status not in JUDGED:
        return status
    measured = any(report.measurement is not None for report in results.reports)
    accepted = (*_keep_counts(results, session), *(_keep(results, session, root) if measured else ()))
    results.written = (*results.written, *accepted)
    return _status(results, session, failed=failed)


def _status(results: Results, session: Session, *, failed: int) -> int:
    """Return the exit status; verdicts count only where they failed their test (an expected failure is none)."""
    outcomes = [verdict.outcome for name in results.failed_by_verdict for verdict in results.found[name].verdicts]
    policy = Policy.of(session.run.settings, device_kind=session.run.device_kind)
    others = failed > len(results.failed_by_verdict)
    status = exit_status(outcomes, policy=policy, other_failures=others)
    settings = session.run.settings
    strict = settings.unused_baselines == "fail" and settings.other is None
    if status == 0 and (results.nothing_measured or (strict and _unused(results, session))):
        return INVALID_RUN
    return status


def _unused(results: Results, session: Session) -> tuple[baselines.StoredCase, ...]:
    """Return what the baseline holds and no test asked for; nothing where the run was narrowed to some tests."""
    if _narrowed(results, session) or session.baseline is None or not results.collected:
        return ()
    return baselines.unused(session.baseline, results.collected)


def _narrowed(results: Results, session: Session) -> bool:
    return results.deselected or bool(session.run.settings.selection.components)


def unused_lines(results: Results, session: Session) -> Iterator[Line]:
    """Yield what the baseline holds and no test asked for, or that this was not checked."""
    settings = session.run.settings
    if settings.other is not None or session.baseline is None or not results.collected:
        return
    if _narrowed(results, session):
        yield Line("unused baseline entries were not looked for: this run was narrowed to some tests")
    fails = settings.unused_baselines == "fail"
    for stored in _unused(results, session):
        text = f"UNUSED {stored.case.key}: in the baseline, but no test measures it any more"
        yield Line(f"{text}, which fails the run" if fails else text, ("red",) if fails else ("yellow",))


def _keep(results: Results, session: Session, root: Path) -> tuple[str, ...]:
    settings = session.run.settings
    if settings.in_process:
        return (
            "Measured inside pytest's own process (--sdperf-inprocess): nothing is kept as a candidate or baseline.",
        )
    origin = acceptance.Origin(
        slug=session.run.device().slug, machine=session.machine, date=clock.today_utc(), commit=commit_of(root)
    )
    if not settings.update_baselines:
        acceptance.keep_candidates(results.reports, origin=origin, state_dir=settings.state_dir)
        return ()
    accepted = acceptance.accept(
        results.reports,
        origin=origin,
        folder=settings.baselines,
        state_dir=settings.state_dir,
        reason=settings.reason,
    )
    return accepted.lines


def _keep_counts(results: Results, session: Session) -> tuple[str, ...]:
    """Accept operator counts of a foreign optimizer, where that was asked for."""
    settings = session.run.settings
    if not settings.update_baselines:
        return ()
    found = {
        fusions.fusion_key(report.case): report.counts
        for report in results.reports
        if report.counts and report.case.fuser == "ort" and (settings.reason or report.outcome is not Outcome.REGRESSED)
    }
    return fusions.record(session.fusions_file, found) if found else ()


def commit_of(root: Path) -> str:
    """Return the short commit of a project; empty where there is no git."""
    try:
        answer = subprocess.run(  # noqa: S603 - no shell, and the folder is pytest's own root
            ["git", "-C", str(root), "rev-parse", "--short=12", "HEAD"],  # noqa: S607 - the user's own git
            capture_output=True,
            text=True,
            check=False,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout.strip() if answer.returncode == 0 else ""


def summary_lines(results: Results, session: Session, *, command: str, width: int) -> Iterator[Line]:
    """Yield the terminal report; nothing if no test used our fixtures."""
    if results.nothing_measured:
        yield Line(f"INVALID nothing was measured: none of {results.selected} selected tests came to it", ("red",))
    if not results.reports:
        return
    yield from unused_lines(results, session)
    yield from report_lines(
        results.reports,
        run_info(results, session, command=command),
        width=width,
        published=published.load(published.folder()),
        written=results.written,
    )


def run_info(results: Results, session: Session, *, command: str) -> RunInfo:
    """Describe the run as a whole."""
    settings = session.run.settings
    engines = _engines(results.reports)
    if not any(report.case.engine for report in results.reports):
        return RunInfo(
            device="",
            slug="",
            baselines=str(settings.baselines / "fusions"),
            command=command,
            updating=settings.update_baselines,
        )
    device = session.run.device()
    baseline = session.baseline
    dates = [stored.last.date for stored in baseline.cases.values()] if baseline else []
    cards = {card.slug: card.family for card in load_gpus().gpus}
    return RunInfo(
        device=device.name,
        slug=device.slug,
        family=cards.get(device.slug, ""),
        machine=session.machine,
        engines=engines,
        baselines=str(baselines.file_of(settings.baselines, device.slug)),
        baseline_cases=len(baseline.cases) if baseline else 0,
        baseline_date=max(dates, default=""),
        sessions=sessions_of(results.reports, baseline),
        command=command,
        updating=settings.update_baselines,
        in_process=settings.in_process,
        pairs=settings.other is not None,
        changes=changes_of(results.reports, baseline),
    )


def _engines(reports: list[CaseReport]) -> Mapping[str, Mapping[str, str]]:
    """Return the versions that each engine reported."""
    engines: dict[str, Mapping[str, str]] = {}
    for report in reports:
        if report.case.engine and report.measurement is not None and report.measurement.subject:
            engines[report.case.engine] = report.measurement.subject
    return engines


def out_of_time(report: pytest.TestReport, error: BaseException | None) -> Verdict | None:
    """Return the verdict on a test that failed because a process took too long, also one that only builds.

    A measurement says so by itself. The machine may have been busy, or the time too short: nothing about the case was
    found out.
    """
    if not (report.failed and isinstance(error, WorkerError) and error.reason == "timeout"):
        return None
    return ended(Failure(error.reason, str(error), error.tail), metric="run")


def attach(report: pytest.TestReport, found: CaseReport | None, error: BaseException | None) -> None:
    """Attach what a test recorded to its report, and why it failed where no verdict says it."""
    if found is None:
        return
    by_verdict = isinstance(error, VerdictFailed) or out_of_time(report, error) is not None
    if report.failed and not by_verdict and not isinstance(error, DisagreementFailed):
        lines = str(error).strip().splitlines() if error is not None else []
        found = dataclasses.replace(found, problem=lines[0] if lines else "the test failed")
    # pytest sends extra attributes of a report through xdist.
    report.sdperf = {"report": found.to_json(), "by_verdict": by_verdict}  # type: ignore[attr-defined]
