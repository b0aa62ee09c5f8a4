"""Results of several runs and machines as one: per device the newest result of each test, and the history of cases."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pytest_sdperf.baselines.stored import Baseline
from pytest_sdperf.checks.judging.verdict import exit_status
from pytest_sdperf.checks.pipelines.tables.stored import latency_s
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.report.judged import why_nothing
from pytest_sdperf.report.results import SavedResults
from pytest_sdperf.report.run_info import RunInfo


@dataclass(frozen=True)
class PageRun:
    """What one file holds.

    Attributes:
        saved: The results of a run; or the cases of a baseline, each as it was measured last.
        judged: Whether a run judged them.
        strips: Node id -> picture of its steps.
    """

    saved: SavedResults
    judged: bool = True
    strips: Mapping[str, Path] = field(default_factory=dict)

    @property
    def problems(self) -> Iterator[str]:
        """Yield what is wrong with the run as a whole, which no verdict says."""
        summary, run = self.saved.summary, self.saved.run
        if not self.judged:
            return
        if run.altered:
            yield run.altered
        if not summary.ended:
            yield f"The run ended before its last test (exit status {summary.status} of pytest): results are missing."
        if summary.failures:
            yield f"Tests that failed for another reason than a verdict: {summary.failures}."
        judged = (one for one in self.saved.reports if one.nodeid not in summary.expected_failures)
        outcomes = [verdict.outcome for report in judged for verdict in report.verdicts]
        if (status := exit_status(outcomes, policy=self.saved.policy)) > 10:  # 10 is INVALID, which is red by itself
            yield f"A verdict is among those that the run was told to fail on (exit status {status})."
        if why := why_nothing(self.saved.reports, measuring=summary.selected, asked=summary.selected):
            yield f"{why[0].upper()}{why[1:]}."


@dataclass(frozen=True)
class Device:
    """What there is of one kind of device.

    Attributes:
        runs: The oldest first.
        reports: The newest of each test and case.
        history: Case key -> date -> seconds, of sessions of the baseline and of runs.
        baseline: What is stored for it; None for nothing.
    """

    runs: tuple[PageRun, ...]
    reports: tuple[CaseReport, ...]
    history: Mapping[str, Mapping[str, float]]
    baseline: Baseline | None = None

    @property
    def run(self) -> RunInfo:
        """The newest run."""
        return self.runs[-1].saved.run

    @property
    def name(self) -> str:
        """What a reader calls it."""
        return self.run.device or self.run.slug or "no device"

    @property
    def judged(self) -> bool:
        """Whether a run judged anything of it."""
        return self.runs[-1].judged


def merged(runs: Iterable[PageRun], stored: Mapping[str, Baseline]) -> tuple[Device, ...]:
    """Return what there is of each device, in the order of the files.

    Args:
        runs: Of any devices. What is stored stands for itself only where no run of its device is there.
        stored: Slug -> baseline, for the history of cases.
    """
    by_slug: dict[str, list[PageRun]] = {}
    for run in runs:
        by_slug.setdefault(run.saved.run.slug, []).append(run)
    return tuple(_device(found, stored.get(slug)) for slug, found in by_slug.items())


def _device(found: Sequence[PageRun], baseline: Baseline | None) -> Device:
    runs = sorted((one for one in found if one.judged) if any(one.judged for one in found) else found, key=_date)
    newest: dict[tuple[str, str], CaseReport] = {}
    for run in runs:
        newest.update({(report.nodeid, report.case.key): report for report in run.saved.reports})
    return Device(tuple(runs), tuple(newest.values()), _history(runs, baseline), baseline)


def _date(run: PageRun) -> str:
    return run.saved.date


def _history(runs: Iterable[PageRun], baseline: Baseline | None) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for key, stored in baseline.cases.items() if baseline is not None else ():
        found[key] = {one.date: latency_s(one) for one in (stored.anchor, *stored.sessions) if one.samples}
    for run in runs:
        for report in run.saved.reports:
            known = report.measurement.known_latency_s if report.measurement is not None else None
            if known is not None and run.judged:
                found.setdefault(report.case.key, {})[run.saved.date] = known
    return {key: dict(sorted(dates.items())) for key, dates in found.items()}


def strips_of(saved: SavedResults, *folders: Path | None) -> dict[str, Path]:
    """Return node id -> picture of its steps, as `--sdperf-images` wrote it.

    Args:
        saved: The results.
        folders: Where the pictures may be; the first that has one counts.
    """
    found: dict[str, Path] = {}
    for report in saved.reports:
        name = report.nodeid.partition("[")[2].removesuffix("]")
        places = [folder / name / "strip.png" for folder in folders if folder is not None and name]
        if there := [place for place in places if place.is_file()]:
            found[report.nodeid] = there[0]
    return found
