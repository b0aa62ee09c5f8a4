"""The cells that one case, or one published row, puts into a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_sdperf.baselines.published import OOM, SUSPICIOUS, Cell
from pytest_sdperf.checks.pipelines.tables.spread import peaks_beyond, peaks_of
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.checks.reporting.gates import concerns
from pytest_sdperf.core.units import MEGABYTE, percent, seconds
from pytest_sdperf.core.values import Case
from pytest_sdperf.core.values.outcomes import Outcome, Verdict

MARKS = {
    Outcome.REGRESSED: "!",
    Outcome.INVALID: "x",
    Outcome.INCONCLUSIVE: "?",
    Outcome.GAP: "~",
    Outcome.IMPROVED: "+",
}
HEADINGS = ("latency", "change ", "MB 1st ", "MB 2nd ", "verdict")
STAR = "*"
MORE = ">"


@dataclass(frozen=True)
class Cells:
    """One row's cells under one batch size.

    Attributes:
        texts: Latency, change, first-run memory, second-run memory and verdict (or source).
        outcome: The worst verdict, for the ink.
    """

    texts: tuple[str, str, str, str, str]
    outcome: Outcome | None = None


def cells_of(reports: Sequence[CaseReport], wrong: Iterable[Case] = ()) -> Cells:
    """Return the cells of one case from the reports of every test that was about it.

    Args:
        reports: At least one.
        wrong: From `wrong_builds` of the whole run: where one of them is this build, its speed is no result.
    """
    measured = next((report for report in reports if report.measurement is not None), reports[0])
    outcomes = [report.outcome for report in reports if report.outcome is not None]
    outcomes += [Outcome.FAILED] if any(concerns(gate, measured.case) for gate in wrong) else []
    worst = max(outcomes, key=lambda outcome: outcome.rank, default=None)
    latency = measured.verdict("latency")
    return Cells(
        (
            _latency(measured),
            _change(latency),
            _memory(measured, "first-run-memory"),
            _memory(measured, "second-run-memory"),
            worst.value if worst is not None else "",
        ),
        worst,
    )


def _latency(report: CaseReport) -> str:
    measurement = report.measurement
    if measurement is None:
        return ""
    if measurement.out_of_memory:
        return OOM
    latency_s = measurement.known_latency_s
    return "-" if latency_s is None else seconds(latency_s)


def _change(verdict: Verdict | None) -> str:
    if verdict is None:
        return ""
    mark = MARKS.get(verdict.outcome, "")
    if not verdict.obtained or not verdict.expected:
        return mark
    return f"{percent(verdict.obtained / verdict.expected)}{mark or ' '}"


def _memory(report: CaseReport, metric: str) -> str:
    measurement = report.measurement
    if measurement is None or measurement.out_of_memory:
        return ""
    known = peaks_of(report, metric)
    verdict = report.verdict(metric)
    mark = MARKS.get(verdict.outcome, "") if verdict is not None else ""
    if not known:
        return f"-{mark or ' '}"
    return f"{min(known) / MEGABYTE:,.0f}{mark or (MORE if peaks_beyond(report, metric) else ' ')}"


def cells_of_published(cell: Cell, *, source: str) -> Cells:
    """Return the cells of a published number; `*` marks suspicious images, as in the sources."""
    star = f"{STAR} " if SUSPICIOUS in cell.flags else ""
    if OOM in cell.flags:
        return Cells((OOM, "", "", "", source))
    latency = cell.latency_s
    return Cells(
        (
            f"{seconds(latency)}" if latency else "",
            star,
            _published_memory(cell.values.get("first_run_memory_mb")),
            _published_memory(cell.memory_mb),
            source,
        )
    )


def _published_memory(value: float | None) -> str:
    return f"{value:,.0f} " if value else ""
