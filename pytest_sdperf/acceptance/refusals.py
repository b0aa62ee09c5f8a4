"""Which results must not become a baseline, and why."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_sdperf.acceptance.options import AcceptOptions
from pytest_sdperf.checks.judging.fitness import DRIVER_CHANGED
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.checks.reporting.doubts import disturbance, doubt
from pytest_sdperf.checks.reporting.gates import concerns, failed_gates
from pytest_sdperf.core.values.outcomes import Outcome


def refusals(
    reports: Iterable[CaseReport], terms: AcceptOptions, *, any_driver: bool = False, command: str = ""
) -> dict[str, str]:
    """Return why results must not be accepted, by case key.

    A case is refused if it is INVALID, if there is doubt about it and no reason is given, or if a gate failed on what
    it was measured with: an agreement, or a test (fusions, placement) that failed on the same build.

    Args:
        reports: Of one run.
        terms: How they may be accepted.
        any_driver: Whether what is INVALID for another driver alone is none of these.
        command: What measures them again; empty if unknown.
    """
    reports = tuple(reports)
    gates = failed_gates(reports)
    refused: dict[str, str] = {}
    for report in reports:
        if report.measurement is None:
            continue
        # What no reason mends comes first.
        why = _invalid(report, any_driver=any_driver)
        why = why or next((why for gate, why in gates if concerns(gate, report.case)), "")
        why = why or _doubtful(report, terms, command=command)
        if why:
            refused.setdefault(report.case.key, why)
    return refused


def _invalid(report: CaseReport, *, any_driver: bool) -> str:
    for verdict in report.verdicts:
        if verdict.outcome is Outcome.INVALID and not (any_driver and verdict.code == DRIVER_CHANGED):
            return f"INVALID: {verdict.sentence}"
    return "" if report.verdicts else "it was not judged"


def _doubtful(report: CaseReport, terms: AcceptOptions, *, command: str) -> str:
    if terms.has_reason or not (why := doubt(report)):
        return ""
    meant = f'If that is meant, add {terms.reason_option}="why it is acceptable".'
    if not disturbance(report):
        return f"{why} {meant}"
    return f"{why} Measure it again where nothing else runs{f': {command}' if command else ''}. {meant}"
