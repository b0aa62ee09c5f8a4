"""The energy table of a GPU: what a call and an image take, and the power at which they do."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator
from typing import Any

from pytest_sdperf.checks.pipelines.judging.energy import Energy
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.checks.reporting.columns import INDENT, Table, TableRow, batches_differ, case_label
from pytest_sdperf.checks.reporting.line import Line, wrapped
from pytest_sdperf.core.units import digits, plural
from pytest_sdperf.core.values import Measurement

_TITLE = "energy"
_COLUMNS = ("J/call", "J/image", "mean W")
_LEGEND = (
    "medians of the processes, each of at least two seconds and two calls after the timed ones, from the card's own "
    "counter: the whole card, with what it draws idle"
)


def energy_lines(reports: Iterable[CaseReport], *, width: int) -> Iterator[Line]:
    """Yield one row per case whose card counts its energy, and why others have none.

    Args:
        reports: Of the run.
        width: Columns of the terminal.
    """
    reports = list(reports)
    table = energy_table(reports)
    yield from table.lines(width=width)
    told = [one for report in reports for one in report.measurements.values()]
    reasons = [why for one in told if (why := Energy().why_unknown(one.samples))]
    if reasons and not table.rows:
        yield Line(_TITLE, ("bold",))
    for why in dict.fromkeys(reasons):
        text = f"not known of {plural(reasons.count(why), 'case')}: {why}"
        yield from wrapped(text, width=width, first=INDENT, rest=INDENT * 2)


def energy_table(reports: Iterable[CaseReport]) -> Table:
    """Return the table alone."""
    told = [(side, one) for report in reports for side, one in report.measurements.items()]
    known = [(side, one) for side, one in told if _each(one, "joules_per_call")]
    several = batches_differ(one.case for _, one in known)
    rows = (
        TableRow(case_label(one.case, one.case.component, batch=several, side=side), _cells(one)) for side, one in known
    )
    return Table(_TITLE, _COLUMNS, tuple(rows), (_LEGEND,))


def _cells(measurement: Measurement) -> tuple[str, ...]:
    joules, watts = (statistics.median(_each(measurement, name)) for name in ("joules_per_call", "watts"))
    images = _each(measurement, "images")
    return digits(joules), digits(joules / images[0]) if images else "-", digits(watts)


def _each(measurement: Measurement, name: str) -> list[float]:
    """Return a number of the energy of each process that has it."""
    found: list[Any] = [sample.facts.get("energy", {}) for sample in measurement.samples]
    return [one[name] for one in found if name in one]
