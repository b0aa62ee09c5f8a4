"""Which operator counts may be recorded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pytest_sdperf.baselines.fusions import fusion_key, is_stored
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.core.values.outcomes import Outcome


def counts_to_keep(reports: Iterable[CaseReport], *, reason: str) -> dict[str, Mapping[str, int]]:
    """Return the counts of builds by their key in a file of counts; fewer than known only with a reason."""
    return {
        fusion_key(report.case): report.counts
        for report in reports
        if report.counts and is_stored(report.case) and _acceptable(report, reason=reason)
    }


def _acceptable(report: CaseReport, *, reason: str) -> bool:
    outcome = report.outcome
    return outcome is not Outcome.FAILED and (bool(reason) or outcome is not Outcome.REGRESSED)
