"""The end of a run: what became of every case is kept, accepted, written, printed, and turned into an exit status."""

from __future__ import annotations

import dataclasses
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_sdperf import clock
from pytest_sdperf.acceptance import accept as acceptance
from pytest_sdperf.acceptance.counts import counts_to_keep
from pytest_sdperf.baselines import fusions, published
from pytest_sdperf.baselines import stored as baselines
from pytest_sdperf.gpu_facts import load_gpus
from pytest_sdperf.judging.policy import Policy
from pytest_sdperf.judging.run_status import run_status
from pytest_sdperf.outcomes import Outcome
from pytest_sdperf.report.case_report import CaseReport
from pytest_sdperf.report.course import NARROWED, Course
from pytest_sdperf.report.explanations import write_explanations
from pytest_sdperf.report.line import Line
from pytest_sdperf.report.results import results_of, write_results
from pytest_sdperf.report.run_info import RunInfo
from pytest_sdperf.report.terminal import report_lines
from pytest_sdperf.report.unused import Unused, asked_axes, unused_cases, unused_lines
from pytest_sdperf.session import Session
from pytest_sdperf.settings import Settings
from pytest_sdperf.values import Case, to_json

JUDGED = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)


@dataclasses.dataclass
class Results:
    """What the tests of a run reported, in their order.

    Attributes:
        found: Node id -> what the test found out, for tests that used our fixtures; of a test that ran twice the last.
        failed_by_verdict: Node ids of tests that failed because of a verdict, which has an exit status of its own.
        collected: Cases that tests with `bench` collected, before any deselection.
        benches: Node id -> case of the tests with `bench` that were selected to run.
        deselected: Whether something took tests away (`-k`, `-m`, `--lf`, node ids).
        skipped: Node id -> why the test was skipped.
        expected_failures: Node ids of tests that were expected to fail.
        written: Lines about what was written: to the baseline, or to a file that was asked for.
        ended: What was to be done and how it ended, once it has ended.
    """

    found: dict[str, CaseReport] = dataclasses.field(default_factory=dict)
    failed_by_verdict: set[str] = dataclasses.field(default_factory=set)
    collected: tuple[Case, ...] = ()
    benches: dict[str, Case] = dataclasses.field(default_factory=dict)
    deselected: bool = False
    skipped: dict[str, str] = dataclasses.field(default_factory=dict)
    expected_failures: set[str] = dataclasses.field(default_factory=set)
    written: tuple[str, ...] = ()
    ended: Course = dataclasses.field(default_factory=Course)

    @property
    def reports(self) -> list[CaseReport]:
        """What was found out, in the order of the tests."""
        return list(self.found.values())

    @property
    def selected(self) -> int:
        """Number of tests with `bench` that were selected to run."""
        return len(self.benches)

    @property
    def interrupted(self) -> bool:
        """Whether the run was ended from outside, so that nothing is kept or accepted."""
        return self.ended.status not in JUDGED

    @property
    def finished(self) -> bool:
        """Whether every selected test came to its end: neither interrupted, nor stopped, nor out of time."""
        return self.ended.ended and all(report.outcome is not Outcome.NOT_MEASURED for report in self.reports)

    @property
    def nothing_measured(self) -> bool:
        """Whether tests that measure were selected and none came to measure, or a time budget left out every test."""
        if self.reports and all(report.outcome is Outcome.NOT_MEASURED for report in self.reports):
            return True
        return self.selected > 0 and not any(report.measurement for report in self.reports)

    def add(self, report: pytest.TestReport) -> None:
        """Take over what a test recorded; it arrives as JSON, also from a worker of pytest-xdist."""
        if hasattr(report, "wasxfail"):
            self.expected_failures.add(report.nodeid)
        elif report.skipped:
            self.skipped[report.nodeid] = _skip_reason(report)
        data = getattr(report, "sdperf", None)
        if data is None:
            return
        found = CaseReport.from_json(data["report"])
        self.found[found.nodeid] = found
        self.failed_by_verdict.discard(found.nodeid)
        if report.failed and data["by_verdict"]:
            self.failed_by_verdict.add(found.nodeid)

    def collection(self) -> dict[str, Any]:
        """Return as JSON data what a worker of pytest-xdist collected."""
        data: dict[str, Any] = to_json(
            {"collected": self.collected, "benches": self.benches, "deselected": self.deselected}
        )
        return data

    def take_collection(self, data: Mapping[str, Any] | None) -> None:
        """Take over what a worker collected; None where it did not come to that."""
        if data is not None:
            self.collected = tuple(Case.from_json(case) for case in data["collected"])
            self.benches = {name: Case.from_json(case) for name, case in data["benches"].items()}
            self.deselected |= data["deselected"]

    def course(self, settings: Settings, *, status: int, failed: int, stopped: bool) -> Course:
        """Return what was to be done and how it ended. Arguments as of `conclude`."""
        return Course(
            status=status,
            stopped=stopped,
            failures=max(failed - len(self.failed_by_verdict), 0),
            expected_failures=tuple(sorted(self.expected_failures)),
            selected=self.selected,
            measured=self.selected > 0 and not self.nothing_measured,
            collected=self.collected,
            asked=asked_axes(settings.selection),
            skipped={self.benches[name].key: why for name, why in self.skipped.items() if name in self.benches},
            narrowed=NARROWED if self.deselected else "",
        )


def _skip_reason(report: pytest.TestReport) -> str:
    told = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return told.removeprefix("Skipped: ")


def conclude(
    results: Results, session: Session, *, status: int, failed: int, stopped: bool, command: str, root: Path
) -> int:
    """Write, keep and accept what was measured; return the exit status of the run.

    Args:
        results: Of the whole run.
        session: The session.
        status: What pytest would end with.
        failed: Failures that pytest counted, errors at collection included.
        stopped: Whether something ended the run before its last test (`-x`, `--maxfail`).
        command: What the user typed.
        root: Folder of the project, for its commit.

    Raises:
        SdperfError: A file cannot be written or trusted.
    """
    settings = session.run.settings
    results.ended = results.course(settings, status=status, failed=failed, stopped=stopped)
    policy = Policy.of(settings, device_kind=session.run.device_kind)
    if settings.json_file is not None:
        info = dataclasses.replace(run_info(results, session, command=command), commit=commit_of(root))
        saved = results_of(tuple(results.reports), info, results.ended, policy, settings, date=clock.today_utc())
        write_results(settings.json_file, saved)
    if settings.explain_file is not None:
        told = write_explanations(settings.explain_file, results.reports, command=command, date=clock.today_utc())
        results.written = (told,)
    if results.interrupted:
        return status
    unused = _unused(results, session)
    measured = any(report.measurement is not None for report in results.reports)
    accepted = (*_keep_counts(results, session), *(_keep(results, session, root) if measured else ()))
    results.written = (*results.written, *accepted)
    if results.finished and measured:
        session.unfinished.drop(report.case for report in results.reports)
    return run_status(
        # Verdicts count only where they failed their test: an expected failure is none.
        [verdict.outcome for name in results.failed_by_verdict for verdict in results.found[name].verdicts],
        policy=policy,
        other_failures=results.ended.failures > 0,
        nothing_measured=results.nothing_measured,
        unused=bool(unused.found),
    )


def _unused(results: Results, session: Session) -> Unused:
    """Return the stored cases that this run did not use; without a test that measures nobody asks for a device."""
    return unused_cases(session.baseline, results.ended, results.reports) if results.collected else Unused()


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
    session.unfinished.drop(report.case for report in results.reports if report.case.key in accepted.accepted)
    return accepted.lines


def _keep_counts(results: Results, session: Session) -> tuple[str, ...]:
    """Accept operator counts of a foreign optimizer, where that was asked for."""
    settings = session.run.settings
    if not settings.update_baselines:
        return ()
    found = counts_to_keep(results.reports, reason=settings.reason)
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


def summary_lines(
    results: Results, session: Session, *, command: str, width: int, verbose: bool = False
) -> Iterator[Line]:
    """Yield the terminal report; nothing if no test used our fixtures."""
    if results.nothing_measured:
        selected = results.selected or len(results.reports)
        yield Line(f"INVALID nothing was measured: none of {selected} selected tests came to it", ("red",))
    if not results.reports:
        return
    yield from unused_lines(_unused(results, session), rule=session.run.settings.unused_baselines)
    yield from report_lines(
        results.reports,
        run_info(results, session, command=command),
        width=width,
        published=published.load(published.folder(), published.own_folder(session.run.settings.baselines)),
        written=results.written,
        verbose=verbose,
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
            fusions=session.fusions_file.name,
        )
    device = session.run.device()
    cards = {card.slug: card.family for card in load_gpus().gpus}
    info = RunInfo(
        device=device.name,
        slug=device.slug,
        family=cards.get(device.slug, ""),
        machine=session.machine,
        engines=engines,
        command=command,
        updating=settings.update_baselines,
        in_process=settings.in_process,
        interrupted=results.interrupted,
        resumable=0 if results.finished else _resumable(results, session),
        fusions=session.fusions_file.name,
    )
    path = str(baselines.file_of(settings.baselines, device.slug))
    return info.against(session.baseline, results.reports, path=path)


def _resumable(results: Results, session: Session) -> int:
    measured = {report.case for report in results.reports if report.measurement is not None}
    return sum(map(session.unfinished.holds, measured))


def _engines(reports: list[CaseReport]) -> Mapping[str, Mapping[str, str]]:
    """Return the versions that each engine reported."""
    engines: dict[str, Mapping[str, str]] = {}
    for report in reports:
        if report.case.engine and report.measurement is not None and report.measurement.subject:
            engines[report.case.engine] = report.measurement.subject
    return engines
