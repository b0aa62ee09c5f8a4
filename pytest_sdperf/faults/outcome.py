"""Whether a run has found the fault that was planted into it, as it must be found."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pytest_sdperf.core.units import plural
from pytest_sdperf.faults.fault import UNUSED, Fault


def is_found(fault: Fault, reports: Iterable[Any], *, unused: bool) -> bool:
    """Say whether a run has found a fault as it must be found.

    Args:
        fault: What was planted.
        reports: The `CaseReport` of every test.
        unused: Whether the baseline holds cases that nothing measures any more.
    """
    return (fault.found.verdict == UNUSED and unused) or any(_finds(report, fault) for report in reports)


def _finds(report: Any, fault: Fault) -> bool:
    found = fault.found
    return any((one.outcome.value, one.code) == (found.verdict, found.code) for one in report.verdicts)


def outcome_of(fault: Fault, reports: Iterable[Any], *, status: int, unused: bool) -> str:
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
        return f"PLANTED {fault.name}, and it was found{by}: {must}."
    what = "nothing turned red: it must be" if not status else "what turned red is not that: it must be"
    return f"PLANTED {fault.name}, and {what} {must}. Type `sdperf faults {fault.name}` to see how it is found."
