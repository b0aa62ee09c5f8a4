"""The agreement table: how far each build is from its reference, and how much of its limit that takes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from pytest_sdperf.outcomes import Agreement
from pytest_sdperf.report.case_report import CaseReport
from pytest_sdperf.report.columns import INDENT, Row, case_label, column_lines
from pytest_sdperf.report.line import Line, wrapped
from pytest_sdperf.units import share

_COLUMNS = ("error", "limit", "of limit")


def agreement_lines(reports: Iterable[CaseReport], *, width: int) -> Iterator[Line]:
    """Yield one row per agreement; rows that fail say where."""
    compared = [report for report in reports if report.agreements]
    several = len({report.case.batch_size for report in compared}) > 1
    if not compared:
        return
    rows = [_row(report, one, batch=several) for report in compared for one in report.agreements]
    yield from column_lines("agreement", _COLUMNS, rows, width=width)
    legend = _legend([one for report in compared for one in report.agreements])
    yield from wrapped(legend, width=width, first=INDENT, rest=INDENT)


def _legend(agreements: Sequence[Agreement]) -> str:
    """Say what an error is, what its limit is and what each floating type was compared with."""
    metrics = ", ".join(sorted({agreement.metric for agreement in agreements}))
    references = ", ".join(sorted({f"{a.floating} against {a.reference}" for a in agreements}))
    factors = sorted(
        {f"{a.limit / a.yardstick:.3g} x" for a in agreements if a.yardstick > 0 and math.isfinite(a.limit)}
    )
    by = " or ".join(sorted({agreement.by for agreement in agreements}))
    limit = f"; limit: {', '.join(factors)} the error of plain {by} in the same type" if factors else ""
    return f"error: {metrics} to the reference ({references}){limit}"


def _row(report: CaseReport, agreement: Agreement, *, batch: bool) -> Row:
    case, level = report.case, agreement.level
    what = case.component if level in ("component", case.component) else f"{case.component} {level}"
    finite = math.isfinite(agreement.error) and agreement.limit > 0
    used = share(agreement.error / agreement.limit) if finite else "-"
    numbers = (f"{agreement.error:.2e}", f"{agreement.limit:.2e}", used)
    label = case_label(case, what, batch=batch)
    if agreement.passed:
        return Row(label, numbers)
    details = "".join(f"; {name} {value:.4g}" for name, value in sorted(agreement.details.items()))
    worst = f"FAILS, worst at {agreement.culprit or 'a place that was not named'}{details}"
    return Row(label, numbers, ("red",), worst)
