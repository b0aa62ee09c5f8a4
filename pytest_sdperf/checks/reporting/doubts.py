"""What is accepted only with a reason: what got worse, and what was measured beside something else."""

from __future__ import annotations

from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.pipelines.judging.latency import LATENCY
from pytest_sdperf.checks.pipelines.judging.waiting import most_waited
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.core.units import percent, share
from pytest_sdperf.core.values.outcomes import Outcome


def doubt(report: CaseReport) -> str:
    """Return why a measurement is accepted only with a reason; empty where it needs none."""
    for verdict in report.verdicts:
        if verdict.outcome is Outcome.REGRESSED:
            return f"REGRESSED: {verdict.sentence}"
    return slower_than_level(report) or disturbance(report)


def slower_than_level(report: CaseReport) -> str:
    """Say that a median is slower than the stored level by more than the smallest effect, however wide noise is."""
    latency, effect = report.verdict(LATENCY.name), (report.policy or Policy()).latency_effect
    if latency is None or not (latency.obtained and latency.expected):
        return ""
    ratio = latency.obtained / latency.expected
    if ratio <= 1 + effect:
        return ""
    return f"it is {percent(ratio)[1:]} slower than the stored level ({latency.outcome.value}): {latency.sentence}"


def disturbance(report: CaseReport) -> str:
    """Say that something else had the processors while a case was timed; empty where nothing did."""
    waited = most_waited(report.measurement.samples) if report.measurement is not None else 0.0
    if not waited:
        return ""
    return (
        f"something else used the processors while it was timed: the threads of a process waited {share(waited)} of "
        f"the time."
    )
