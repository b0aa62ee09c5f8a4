"""How results may be accepted, which of them must not become a baseline, and why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pytest_sdperf.checks.judging.fitness import DRIVER_CHANGED
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.checks.reporting.doubts import disturbance, doubt
from pytest_sdperf.checks.reporting.gates import concerns, failed_gates
from pytest_sdperf.core.values import Case
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


@dataclass(frozen=True)
class AcceptOptions:
    """What may be accepted.

    Attributes:
        reason: Why a regression, another driver, or what could not be told is accepted; it is stored. Empty where
            nobody said.
        reason_option: What gives the reason, where these are accepted.
        re_anchor: Whether anchors are replaced, too.
        only: Words of a case key, all of which must be in it; empty for every case.
        new_only: Whether cases that are stored already stay as they are.
    """

    reason: str = ""
    reason_option: str = "--sdperf-reason"
    re_anchor: bool = False
    only: str = ""
    new_only: bool = False

    @property
    def has_reason(self) -> bool:
        """Whether somebody said why."""
        return bool(self.reason.strip())

    @property
    def starts_anew(self) -> bool:
        """Whether there is a reason to start anew: under another driver, or where nobody could tell a change."""
        return self.re_anchor and self.has_reason

    def mean(self, case: Case) -> bool:
        """Whether a case is among those that are meant."""
        return has_words(case, self.only.split())


def has_words(case: Case, words: Iterable[str]) -> bool:
    """Whether every word is one of a case's key: `unet`, `component=unet`, `fp16`."""
    parts = case.key.split(" ")
    known = {*parts, *(part.partition("=")[2] for part in parts)}
    return known.issuperset(words)
