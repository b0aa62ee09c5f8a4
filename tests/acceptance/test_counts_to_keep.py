"""Which operator counts may be stored: those of others, and never what FAILED."""

from __future__ import annotations

import itertools

import pytest
from sample_values import case

from pytest_sdperf.acceptance.counts import counts_to_keep
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.core.values.outcomes import Outcome, Verdict

COUNTS = {"com.microsoft::NhwcConv": 98}
OF = {"foreign": case(engine="", fuser="ort"), "given": case(engine="", fuser="native", exporter="external")}
OWN = case(engine="", fuser="native")


@pytest.mark.parametrize(
    ("outcome", "reason", "of"), [*itertools.product(Outcome, ["", "it is meant"], [*OF.values(), OWN])]
)
def test_what_is_stored(outcome, reason, of):
    report = CaseReport("t", of, verdicts=(Verdict(outcome, "code", "Sentence.", "fusions"),), counts=COUNTS)
    wrong = outcome is Outcome.FAILED or (outcome is Outcome.REGRESSED and not reason)
    stored = of is not OWN and not wrong
    assert list(counts_to_keep([report], reason=reason).values()) == [COUNTS] * stored
