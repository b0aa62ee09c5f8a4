"""The agreement table: how far each build is from its reference, and how much of its limit that takes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from pytest_sdperf.checks.agreement.tensors import RELATIVE_L2
from pytest_sdperf.checks.images.similarity import FLIP, SSIM, bound, spelled
from pytest_sdperf.checks.precision.drift import DRIFT, ROUNDING
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.checks.reporting.columns import INDENT, TableRow, batches_differ, case_label, column_lines
from pytest_sdperf.checks.reporting.line import Line, wrapped
from pytest_sdperf.core.components import IMAGE
from pytest_sdperf.core.interpreter import install_command
from pytest_sdperf.core.units import share
from pytest_sdperf.core.values.outcomes import Agreement

_COLUMNS = ("error", "limit", "of limit")
_PACKAGES = ("flip-evaluator", "pillow", "scikit-image")


def agreement_lines(reports: Iterable[CaseReport], *, width: int) -> Iterator[Line]:
    """Yield one row per agreement, the metrics of an image below its own; rows that fail say where."""
    compared = [report for report in reports if report.agreements]
    several = batches_differ(report.case for report in compared)
    if not compared:
        return
    rows = [row for report in compared for row in _rows(report, batch=several)]
    yield from column_lines("agreement", _COLUMNS, rows, width=width)
    agreements = [one for report in compared for one in report.agreements]
    texts = [*_legend(agreements), *_drift_legend(agreements), *_roundings(agreements), *_not_looked_at(agreements)]
    for text in texts:
        yield from wrapped(text, width=width, first=INDENT, rest=INDENT)


def agreement_cells(reports: Iterable[CaseReport]) -> Iterator[tuple[str, ...]]:
    """Yield what was compared, error, limit and verdict of each agreement, each metric of an image on its own."""
    compared = [report for report in reports if report.agreements]
    several = batches_differ(report.case for report in compared)
    for report in compared:
        for one in report.agreements:
            distance = one.metric == RELATIVE_L2
            error = f"{one.error:.2e}" if distance else spelled(one.metric, one.error)
            limit = f"{one.limit:.2e}" if distance else bound(one.metric, one.limit)
            yield _label(report, one, batch=several).strip(), error, limit, one.outcome.value


def _drift_legend(agreements: Sequence[Agreement]) -> Iterator[str]:
    """Say what a drift is, and what limits it."""
    limits = {
        ROUNDING: "of torch itself, what rounding explains (the error of float32 times the ratio of the units)",
        "torch": "of an engine, 2 x that of plain torch",
    }
    found = {one.by for one in agreements if one.level == DRIFT}
    told = [text for by, text in limits.items() if by in found]
    if told:
        yield f"drift: relative-l2 to float32 from the same latents, after each step; limit: {'; '.join(told)}"


def _legend(agreements: Sequence[Agreement]) -> Iterator[str]:
    """Say what an error is, what its limit is and what each dtype was compared with."""
    agreements = [one for one in agreements if one.metric == RELATIVE_L2 and one.level != DRIFT]
    if not agreements:
        return
    metrics = ", ".join(sorted({agreement.metric for agreement in agreements}))
    references = ", ".join(sorted({f"{a.dtype} against {a.reference}" for a in agreements}))
    factors = sorted(
        {f"{a.limit / a.reference_error:.3g} x" for a in agreements if a.reference_error > 0 and math.isfinite(a.limit)}
    )
    by = " or ".join(sorted({agreement.by for agreement in agreements}))
    limit = f"; limit: {', '.join(factors)} the error of plain {by} in the same type" if factors else ""
    steps = "; of steps: after each, shown is the nearest to its limit" if any(one.steps for one in agreements) else ""
    yield f"error: {metrics} to the reference ({references}){limit}{steps}"


def _roundings(agreements: Sequence[Agreement]) -> Iterator[str]:
    """Say that some limits are those of several roundings."""
    several = max((one.roundings for one in agreements), default=1)
    if several > 1:
        yield (
            f"of {several} roundings: beyond the limit of one, so the initial latents of plain torch were rounded in "
            f"{several - 1} other ways; the largest of its errors counts"
        )


def _not_looked_at(agreements: Sequence[Agreement]) -> Iterator[str]:
    """Say which metrics of images were not computed, because their packages are not installed."""
    metrics = {one.metric for one in agreements if one.level == IMAGE}
    lacking = [name.upper() for name in (SSIM, FLIP) if name not in metrics]
    if "psnr" in metrics and lacking:
        command = install_command("pictures", *_PACKAGES)
        yield f"not looked at: {' and '.join(lacking)}; type: {command}"


def _rows(report: CaseReport, *, batch: bool) -> Iterator[TableRow]:
    for agreement in (one for one in report.agreements if one.metric == RELATIVE_L2):
        row = _row(report, agreement, batch=batch)
        metrics = [one for one in report.agreements if one.metric != RELATIVE_L2 and one.side == agreement.side]
        if agreement.level == IMAGE and metrics:
            row = _with_metrics(row, metrics)
        yield row


def _with_metrics(row: TableRow, metrics: Sequence[Agreement]) -> TableRow:
    """Return a row with the metrics of its image below it."""
    wrong = "" if all(one.passed for one in metrics) else "FAILS, "
    texts = [f"{spelled(one.metric, one.error)} ({bound(one.metric, one.limit)})" for one in metrics]
    details = "; ".join(filter(None, [row.details, f"{wrong}{', '.join(texts)}"]))
    return TableRow(row.label, row.cells, ("red",) if wrong else row.styles, details)


def _row(report: CaseReport, agreement: Agreement, *, batch: bool) -> TableRow:
    finite = math.isfinite(agreement.error) and agreement.limit > 0
    used = share(agreement.error / agreement.limit) if finite else "-"
    numbers = (f"{agreement.error:.2e}", f"{agreement.limit:.2e}", used)
    label = _label(report, agreement, batch=batch)
    if agreement.passed:
        return TableRow(
            label, numbers, (), "; ".join(filter(None, (_step(agreement), _images(agreement), _own(agreement))))
        )
    return TableRow(label, numbers, ("red",), _failing(agreement))


def _label(report: CaseReport, agreement: Agreement, *, batch: bool) -> str:
    case, level = report.case_of(agreement.side), agreement.level
    what = case.component if level in ("component", case.component) else f"{case.component} {level}"
    if level == DRIFT:
        what = f"{what} to {agreement.dtype}"
    if agreement.roundings > 1:
        what = f"{what} of {agreement.roundings} roundings"
    return case_label(case, what, batch=batch, side=agreement.side)


def _step(agreement: Agreement) -> str:
    """Say which step is shown, and how far the last one is; empty for other levels and for a drift."""
    if not agreement.steps or not agreement.culprit:
        return ""
    last = agreement.steps[-1]
    if agreement.culprit == f"step {len(agreement.steps)} of {len(agreement.steps)}":
        return f"at {agreement.culprit}"
    of_limit = f", {share(last.error / last.limit)} of its limit" if last.limit > 0 else ""
    return f"at {agreement.culprit}; the last: {last.error:.2e}{of_limit}"


def _own(agreement: Agreement) -> str:
    """Say that a limit was made of the very numbers that it limits: such a row cannot fail."""
    own = agreement.error == agreement.reference_error > 0 and agreement.level != DRIFT
    return f"this is what limits others: plain {agreement.by} under its own name" if own else ""


def _images(agreement: Agreement) -> str:
    """Say how far the images of a drift are apart; empty for other levels."""
    if agreement.level != DRIFT or not agreement.details:
        return ""
    return f"its image: {', '.join(spelled(metric, error) for metric, error in agreement.details.items())}"


def _failing(agreement: Agreement) -> str:
    """Say where an agreement fails, and what was recognised."""
    details = "".join(f"; {name} {value:.4g}" for name, value in sorted(agreement.details.items()))
    where = "begins at " if agreement.steps else "" if agreement.error == math.inf else "worst at "
    named = f", {agreement.name}" if agreement.name else ""
    return f"FAILS{named}, {where}{agreement.culprit or 'a place that was not named'}{details}"
