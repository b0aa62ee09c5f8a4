"""What a run did not measure itself: it resumed an interrupted one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.checks.reporting.line import Line, wrapped
from pytest_sdperf.core.units import plural


def resumed_lines(reports: Sequence[CaseReport], *, width: int, every: bool = True) -> Iterator[Line]:
    """Yield how many tests have a case that an interrupted run had measured; and each, with that time."""
    taken = [(report.nodeid, report.measurement.resumed) for report in reports if report.measurement is not None]
    taken = [(name, date) for name, date in taken if date]
    if not taken:
        return
    text = f"RESUMED {plural(len(taken), 'case')} that an interrupted run measured; the others are of now"
    yield from wrapped(text, width=width, rest="  ", styles=("bold",))
    if every:
        yield from (Line(f"  {date} {name}") for name, date in taken)
