"""What registered checks found out: a table for each, one row per case, as the check itself wrote it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.checks.reporting.columns import INDENT, TableRow, batches_differ, case_label, column_lines
from pytest_sdperf.checks.reporting.line import STYLES, Line, wrapped
from pytest_sdperf.core.values.check import CheckReport


def tables(reports: Iterable[CaseReport]) -> dict[str, list[tuple[CaseReport, CheckReport]]]:
    """Return the checks that have a table, each with what it found out, in the order of the tests."""
    found: dict[str, list[tuple[CaseReport, CheckReport]]] = {}
    for report in reports:
        for name, check in report.checks.items():
            if check.columns:
                found.setdefault(name, []).append((report, check))
    return found


def check_lines(reports: Iterable[CaseReport], *, width: int) -> Iterator[Line]:
    """Yield the tables."""
    for number, (name, found) in enumerate(tables(reports).items()):
        several = batches_differ(report.case for report, _ in found)
        if number:
            yield Line()
        rows = [_row(name, report, check, batch=several) for report, check in found]
        yield from column_lines(name, found[0][1].columns, rows, width=width)
        if found[0][1].legend:
            yield from wrapped(found[0][1].legend, width=width, first=INDENT, rest=INDENT)


def _row(name: str, report: CaseReport, check: CheckReport, *, batch: bool) -> TableRow:
    verdict, (case, side) = report.verdict(name), report.looked_at
    label = case_label(case, case.component, batch=batch, side=side).rstrip()
    return TableRow(label, check.cells, STYLES.get(verdict.outcome, ()) if verdict else ())
