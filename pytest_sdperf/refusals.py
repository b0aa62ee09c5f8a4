"""Which results must not become a baseline, and why."""

from __future__ import annotations

import math
from collections.abc import Iterable

from pytest_sdperf.report.case_report import CaseReport
from pytest_sdperf.values import Case, Outcome

METRICS = ("latency", "first-run-memory", "second-run-memory")
JUDGED_ALONE = (*METRICS, "counts", "measurement")
WHOLE = ("pipeline", "image")


def refusals(reports: Iterable[CaseReport], *, reason: str) -> dict[str, str]:
    """Return why results must not be accepted, by case key.

    A case is refused if it is INVALID, if it REGRESSED and no reason is given, or if a gate failed on what it was
    measured with: an agreement, or a test (fusions, placement) that failed on the same build.
    """
    reports = tuple(reports)
    gates = failed_gates(reports)
    refused: dict[str, str] = {}
    for report in reports:
        if report.measurement is None:
            continue
        why = _own_refusal(report, reason=reason)
        why = why or next((why for gate, why in gates if concerns(gate, report.case)), "")
        if why:
            refused.setdefault(report.case.key, why)
    return refused


def failed_gates(reports: Iterable[CaseReport]) -> tuple[tuple[Case, str], ...]:
    """Return the cases on which something else than a time or a size failed, and what failed."""
    return tuple((report.case, why) for report in reports if (why := _gate_failure(report)))


def _own_refusal(report: CaseReport, *, reason: str) -> str:
    for verdict in report.verdicts:
        if verdict.outcome is Outcome.INVALID:
            return f"INVALID: {verdict.sentence}"
    if not report.verdicts:
        return "it was not judged"
    for verdict in report.verdicts:
        if verdict.outcome is Outcome.REGRESSED and not reason.strip():
            return f'REGRESSED: {verdict.sentence} If that is meant, add --sdperf-reason="why it is acceptable".'
    return ""


def _gate_failure(report: CaseReport) -> str:
    failed = [agreement for agreement in report.agreements if not agreement.passed]
    if failed:
        worst = max(failed, key=lambda agreement: (math.isnan(agreement.error), agreement.error))
        return f"{report.nodeid} disagrees with the reference: error {worst.error:.2e}, limit {worst.limit:.2e}"
    if report.problem:
        return f"{report.nodeid} failed: {report.problem}"
    failing = [verdict for verdict in report.verdicts if verdict.outcome in (Outcome.REGRESSED, Outcome.INVALID)]
    gates = [verdict for verdict in failing if verdict.metric not in JUDGED_ALONE]
    return f"{report.nodeid}: {gates[0].sentence}" if gates else ""


def concerns(gate: Case, case: Case) -> bool:
    """Whether a failed gate concerns a case. A gate on a graph alone (no engine) concerns every engine that runs it."""
    build = ("model", "optimization", "fuser", "exporter", "opset", "shapes", "weights")
    if any(getattr(gate, name) != getattr(case, name) for name in build):
        return False
    if gate.engine and (gate.engine, gate.engine_options) != (case.engine, case.engine_options):
        return False
    return gate.component == case.component or gate.component in WHOLE or case.component in WHOLE
