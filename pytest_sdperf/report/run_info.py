"""What a report says about the run as a whole."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pytest_sdperf.baselines.sources import BaselineFiles
from pytest_sdperf.baselines.stored import Baseline, StoredCase
from pytest_sdperf.checks.judging.messages import version_changes
from pytest_sdperf.checks.reporting.case_report import CaseReport


@dataclass(frozen=True)
class RunInfo:
    """One run.

    Attributes:
        device: Name of the device, as the vendor's library reports it; empty where no test needed one.
        slug: File name of its baselines.
        family: GPU family, for published tables; empty on a CPU.
        machine: Machine keys.
        devices: How many such devices measured, side by side.
        engines: Engine label -> versions by library name.
        baselines: Path of the device's baseline file in this project, as the user would type it; without a device, of
            what was counted.
        baseline_cases: Cases in that file.
        baseline_date: Date of its newest session; empty if there is none.
        tracked: Whether git knows that file, so that it shows how it changed; looked at where results are accepted.
        other_baselines: Path of each further file that judges cases -> how many, and its newest date.
        sessions: Sessions of the judged case that has fewest; 0 without a baseline.
        command: What the user typed.
        remembers_failures: Whether pytest knows afterwards which tests failed, so that `--lf` can name them.
        updating: Whether results are accepted in this run.
        in_process: Whether workers ran inside pytest's own process; then nothing is kept.
        pairs: Whether a second side was judged by the first, and nothing by a baseline.
        compared: Measured cases that something is stored of.
        changes: What differs from the baseline's subject.
        interrupted: Whether the run was ended from outside; then nothing is kept.
        to_measure: Cases of the tests that were selected to measure.
        left: Node ids of the tests that an interruption kept from their end.
        resumable: Cases that this run measured and did not finish with, so that the next one may take them.
        commit: Commit of the project under test; empty if unknown.
        idle: Tolerances of single cases that no case of this run had use for.
        altered: What was altered on purpose, in a sentence; empty for nothing. Nothing is kept of such a run.
        results: File of saved results, where these are judged after the run.
    """

    device: str
    slug: str
    family: str = ""
    machine: Mapping[str, str | int | float | None] = field(default_factory=dict)
    devices: int = 1
    engines: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    baselines: str = "baselines"
    baseline_cases: int = 0
    baseline_date: str = ""
    tracked: bool = False
    other_baselines: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    sessions: int = 0
    command: str = "pytest suites"
    remembers_failures: bool = True
    updating: bool = False
    in_process: bool = False
    pairs: bool = False
    compared: int = 0
    changes: tuple[str, ...] = ()
    interrupted: bool = False
    to_measure: int = 0
    left: tuple[str, ...] = ()
    resumable: int = 0
    commit: str = ""
    idle: tuple[str, ...] = ()
    altered: str = ""
    results: str = ""

    @property
    def keeps_candidates(self) -> bool:
        """Whether results that nobody has accepted are kept by this run."""
        return not (self.updating or self.in_process or self.results or self.interrupted or self.altered)

    def against(self, sources: BaselineFiles, reports: Sequence[CaseReport]) -> RunInfo:
        """Return the same run with what there is to say about the baselines that judge it.

        Args:
            sources: What is stored for the device.
            reports: Of the run.
        """
        counted = {str(path): (len(cases), _newest(cases.values())) for path, cases in sources.counted()}
        count, date = counted.pop(str(sources.own))
        baseline = sources.baseline
        return dataclasses.replace(
            self,
            baselines=str(sources.own),
            baseline_cases=count,
            baseline_date=date,
            other_baselines=counted,
            sessions=sessions_of(reports, baseline),
            compared=len(_stored_cases(reports, baseline)),
            changes=changes_of(reports, baseline),
        )


def _newest(cases: Iterable[StoredCase]) -> str:
    return max((stored.last.date for stored in cases), default="")


def _stored_cases(reports: Iterable[CaseReport], baseline: Baseline | None) -> set[str]:
    """Return the keys of the measured cases that a baseline has."""
    measured = {report.case.key for report in reports if report.measurement is not None}
    return measured.intersection(baseline.cases if baseline is not None else ())


def changes_of(reports: Iterable[CaseReport], baseline: Baseline | None) -> tuple[str, ...]:
    """Return what differs between the measured subjects and those of their baselines, each difference once."""
    stored = baseline.cases if baseline is not None else {}
    found = {
        change: None
        for report in reports
        if report.measurement is not None and report.case.key in stored
        for change in version_changes(stored[report.case.key].last.subject, report.measurement.subject)
    }
    return tuple(sorted(found))


def sessions_of(reports: Iterable[CaseReport], baseline: Baseline | None) -> int:
    """Return the sessions of the measured case that has fewest; 0 if one has none or nothing was measured."""
    stored = baseline.cases if baseline is not None else {}
    counts = [
        len(stored[report.case.key].level("latency")) if report.case.key in stored else 0
        for report in reports
        if report.measurement is not None
    ]
    return min(counts, default=0)
