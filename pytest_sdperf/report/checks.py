"""What registered checks found out: a table for each, its rows as the check itself wrote them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.checks.reporting.columns import Table, TableRow, batches_differ, case_label
from pytest_sdperf.checks.reporting.line import STYLES, Line
from pytest_sdperf.core.values.check import CheckReport, CheckRow
from pytest_sdperf.core.values.outcomes import Outcome


def tables(
    reports: Iterable[CaseReport],
) -> dict[tuple[str, tuple[str, ...]], list[tuple[CaseReport, str, CheckReport]]]:
    """Return title and columns of each table -> what the checks found out by their names, in the order of the tests.

    Checks that share a table and have other columns have one of their own, of the same title.
    """
    found: dict[tuple[str, tuple[str, ...]], list[tuple[CaseReport, str, CheckReport]]] = {}
    for report in reports:
        for name, check in report.checks.items():
            if check.columns:
                found.setdefault((check.table, check.columns), []).append((report, name, check))
    return found


def check_lines(reports: Iterable[CaseReport], *, width: int) -> Iterator[Line]:
    """Yield the tables."""
    for number, table in enumerate(check_tables(reports)):
        if number:
            yield Line()
        yield from table.lines(width=width)


def check_tables(reports: Iterable[CaseReport]) -> Iterator[Table]:
    """Yield the tables that have rows."""
    for (title, columns), found in tables(reports).items():
        several = batches_differ(report.case for report, *_ in found)
        rows = tuple(_row(report, name, row, batch=several) for report, name, check in found for row in check.rows)
        if rows:
            yield Table(title, columns, rows, tuple(dict.fromkeys(text for *_, one in found for text in one.legend)))


def outcome_of(report: CaseReport, name: str, row: CheckRow) -> Outcome | None:
    """Return what a row of a check means: by itself, or by the check's verdict."""
    verdict = report.verdict(name)
    return row.outcome or (verdict.outcome if verdict else None)


def _row(report: CaseReport, name: str, row: CheckRow, *, batch: bool) -> TableRow:
    (case, side), outcome = report.looked_at_by(row), outcome_of(report, name, row)
    label = case_label(case, f"{case.component} {row.word}".rstrip(), batch=batch, side=side).rstrip()
    failed = row.details and row.outcome is Outcome.FAILED
    details = f"{Outcome.FAILED.value}: {row.details}" if failed else row.details
    return TableRow(label, row.cells, STYLES.get(outcome, ()) if outcome else (), details)
