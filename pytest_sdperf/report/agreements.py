"""The agreement table: how far each build is from its reference, and how much of its limit that takes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from pytest_sdperf.outcomes import Agreement
from pytest_sdperf.report.case_report import CaseReport
from pytest_sdperf.report.line import Line, Style, wrapped
from pytest_sdperf.units import share

_COLUMNS = ("error", "limit", "of limit")
_WIDTH = 10
_INDENT = "  "

Rows = Sequence[tuple[str, Agreement]]


def agreement_lines(reports: Iterable[CaseReport], *, width: int) -> Iterator[Line]:
    """Yield one row per agreement; rows that fail say where."""
    compared = [report for report in reports if report.agreements]
    several = len({report.case.batch_size for report in compared}) > 1
    rows = [(_label(report, one, batch=several), one) for report in compared for one in report.agreements]
    if not rows:
        return
    label_width = max(min(max(len(label) for label, _ in rows), width - len(_COLUMNS) * _WIDTH), len("agreement"))
    yield Line(f"{'agreement':<{label_width}}{''.join(f'{name:>{_WIDTH}}' for name in _COLUMNS)}", ("bold",))
    for label, agreement in rows:
        yield from _row(label, agreement, label_width=label_width, width=width)
    yield from wrapped(_legend(rows), width=width, first=_INDENT, rest=_INDENT)


def _label(report: CaseReport, agreement: Agreement, *, batch: bool) -> str:
    case = report.case
    options = ",".join(f"{name}={value}" for name, value in case.engine_options)
    engine = f"{case.engine}:{options}" if options else case.engine
    what = case.component if agreement.level in ("component", case.component) else f"{case.component} {agreement.level}"
    fuser = f" ({case.fuser})" if case.fuser else ""
    size = f" batch {case.batch_size}" if batch else ""
    return f"{_INDENT}{case.model} {what} {case.optimization}{fuser} {engine}{size}"


def _legend(rows: Rows) -> str:
    """Say what an error is, what its limit is and what each floating type was compared with."""
    metrics = ", ".join(sorted({agreement.metric for _, agreement in rows}))
    references = ", ".join(sorted({f"{a.floating} against {a.reference}" for _, a in rows}))
    factors = sorted({f"{a.limit / a.yardstick:.3g} x" for _, a in rows if a.yardstick > 0 and math.isfinite(a.limit)})
    by = " or ".join(sorted({agreement.by for _, agreement in rows}))
    limit = f"; limit: {', '.join(factors)} the error of plain {by} in the same type" if factors else ""
    return f"error: {metrics} to the reference ({references}){limit}"


def _row(label: str, agreement: Agreement, *, label_width: int, width: int) -> Iterator[Line]:
    styles: tuple[Style, ...] = () if agreement.passed else ("red",)
    finite = math.isfinite(agreement.error) and agreement.limit > 0
    used = share(agreement.error / agreement.limit) if finite else "-"
    numbers = f"{agreement.error:>{_WIDTH}.2e}{agreement.limit:>{_WIDTH}.2e}{used:>{_WIDTH}}"
    if len(label) > label_width:
        yield Line(label, styles)
        label = ""
    yield Line(f"{label:<{label_width}}{numbers}", styles)
    if not agreement.passed:
        details = "".join(f"; {name} {value:.4g}" for name, value in sorted(agreement.details.items()))
        text = f"FAILS, worst at {agreement.culprit or 'a place that was not named'}{details}"
        yield from wrapped(text, width=width, first=_INDENT * 2, rest=_INDENT * 2, styles=styles)
