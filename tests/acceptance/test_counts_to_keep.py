"""Which counts of checks may be stored: never what FAILED."""

from __future__ import annotations

import itertools

import pytest
from sample_values import CASE, fused, known

from pytest_sdperf.acceptance.accept import counts_to_keep
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.core.values.outcomes import Outcome, Verdict

COUNTS = {"com.microsoft::NhwcConv": 98}


@pytest.mark.parametrize(
    ("outcome", "reason", "counted"), [*itertools.product(Outcome, ["", "it is meant"], [known(COUNTS), None])]
)
def test_what_is_stored(outcome, reason, counted):
    verdicts = (Verdict(outcome, "code", "Sentence.", "fusions"),)
    report = CaseReport("t", CASE, verdicts=verdicts, checks=fused(COUNTS, COUNTS, counted=counted))
    wrong = outcome is Outcome.FAILED or (outcome is Outcome.REGRESSED and not reason)
    stored = {} if wrong or counted is None else {counted.file: {counted.key: COUNTS}}
    assert counts_to_keep([report], reason=reason) == stored
