"""What registered checks found out: a table for each, one row per case, as the check itself wrote it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.checks.reporting.columns import INDENT, TableRow, batches_differ, case_label, column_lines
from pytest_sdperf.checks.reporting.line import STYLES, Line, wrapped
from pytest_sdperf.core.values.check import CheckReport


def tables(reports: Iterable[CaseReport]) -> dict[str, list[tuple[CaseReport, str, CheckReport]]]:
    """Return the tables of checks, each with what the checks found out by their names, in the order of the tests."""
    found: dict[str, list[tuple[CaseReport, str, CheckReport]]] = {}
    for report in reports:
        for name, check in report.checks.items():
            if check.columns:
                found.setdefault(check.table, []).append((report, name, check))
    return found


def check_lines(reports: Iterable[CaseReport], *, width: int) -> Iterator[Line]:
    """Yield the tables."""
    for number, (title, found) in enumerate(tables(reports).items()):
        several = batches_differ(report.case for report, *_ in found)
        if number:
            yield Line()
        rows = [_row(report, name, check, batch=several) for report, name, check in found]
        yield from column_lines(title, found[0][2].columns, rows, width=width)
        if found[0][2].legend:
            yield from wrapped(found[0][2].legend, width=width, first=INDENT, rest=INDENT)


def _row(report: CaseReport, name: str, check: CheckReport, *, batch: bool) -> TableRow:
    verdict, (case, side) = report.verdict(name), report.looked_at
    label = case_label(case, f"{case.component} {check.word}".rstrip(), batch=batch, side=side).rstrip()
    return TableRow(label, check.cells, STYLES.get(verdict.outcome, ()) if verdict else ())
