"""What a run with a planted fault says of it: what it is, and whether it was found as it must be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.checks.reporting.line import Line, wrapped
from pytest_sdperf.core.units import plural
from pytest_sdperf.faults import known
from pytest_sdperf.faults.fault import UNUSED, Fault

PLANTED, NOT_FOUND = "PLANTED", 1
NOT_KEPT = "Nothing that a planted fault may have touched is kept as a candidate or baseline."


def planted_lines(name: str, *, width: int) -> Iterator[Line]:
    """Yield what was planted, as the first lines of a report; nothing without a fault."""
    if name:
        text = f"{PLANTED} {name}: {known.get(name).about} It went into {known.get(name).place.value}."
        yield from (Line(line.text, ("yellow", "bold")) for line in wrapped(text, width=width, rest="  "))


def is_found(fault: Fault, reports: Iterable[CaseReport], *, unused: bool) -> bool:
    """Say whether a run has found a fault as it must be found.

    Args:
        fault: What was planted.
        reports: Of every test.
        unused: Whether the baseline holds cases that nothing measures any more.
    """
    return (fault.found.verdict == UNUSED and unused) or any(_finds(report, fault) for report in reports)


def _finds(report: CaseReport, fault: Fault) -> bool:
    found = fault.found
    return any((one.outcome.value, one.code) == (found.verdict, found.code) for one in report.verdicts)


def outcome_of(fault: Fault, reports: Iterable[CaseReport], *, status: int, unused: bool) -> str:
    """Say what became of a planted fault.

    Args:
        fault: As for `is_found`.
        reports: As for `is_found`.
        status: The exit status of the run before anybody asked about the fault.
        unused: As for `is_found`.
    """
    reports, code = list(reports), f" [{fault.found.code}]" if fault.found.code else ""
    must = f"{fault.found.verdict}{code}"
    if status and is_found(fault, reports, unused=unused):
        count = sum(_finds(report, fault) for report in reports)
        by = f" by {plural(count, 'test')}" if count else ""
        return f"{PLANTED} {fault.name}, and it was found{by}: {must}."
    what = "nothing turned red: it must be" if not status else "what turned red is not that: it must be"
    return f"{PLANTED} {fault.name}, and {what} {must}. Type `sdperf faults {fault.name}` to see how it is found."
