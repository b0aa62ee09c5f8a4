"""The table of pictures: how many show what their prompts say, how clearly, and where both may lie."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.checks.reporting.columns import INDENT, TableRow, batches_differ, case_label, column_lines
from pytest_sdperf.checks.reporting.line import STYLES, Line, wrapped
from pytest_sdperf.checks.semantics.judging import METRIC
from pytest_sdperf.core.values.outcomes import Semantics, Window

_COLUMNS = ("right", "window", "clearness", "window", "shift")
_LEGEND = (
    "right: pictures that show colour, shape, size and position of both things, and the background, as their prompts "
    "say; window: where another draw of as many prompts would bring torch in float32, 99 of 100 times; shift: pixels "
    "between things here and in the pictures of torch, at most 0.5"
)


def semantics_lines(reports: Iterable[CaseReport], *, width: int) -> Iterator[Line]:
    """Yield one row per case whose pictures were looked at."""
    looked = [report for report in reports if report.semantics is not None]
    if not looked:
        return
    several = batches_differ(report.case for report in looked)
    rows = [_row(report, report.semantics, batch=several) for report in looked if report.semantics]
    yield from column_lines("pictures", _COLUMNS, rows, width=width)
    yield from wrapped(_LEGEND, width=width, first=INDENT, rest=INDENT)


def _row(report: CaseReport, semantics: Semantics, *, batch: bool) -> TableRow:
    count, right, clearness = semantics.prompts, semantics.right, semantics.clearness
    cells = (
        f"{right.obtained * count:.0f}/{count}",
        f"{right.low * count:.0f} to {right.high * count:.0f}",
        f"{clearness.obtained:.3f}",
        _span(clearness),
        f"{semantics.shift.obtained:.2f}",
    )
    verdict = report.verdict(METRIC)
    styles = STYLES.get(verdict.outcome, ()) if verdict else ()
    case, side = report.looked_at
    return TableRow(case_label(case, case.component, batch=batch, side=side), cells, styles)


def _span(window: Window) -> str:
    return f"{window.low:.3f} to {window.high:.3f}"
