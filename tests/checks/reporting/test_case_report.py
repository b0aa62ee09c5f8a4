from __future__ import annotations

import dataclasses
import json

import pytest
from sample_values import CASE, COUNTS, case, compared, compared_sides, failed, fused, known, measurement, stored

from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.judging.verdict import judge
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.core.files.strict_json import convert
from pytest_sdperf.core.values import to_json
from pytest_sdperf.core.values.outcomes import Agreement, Outcome, Verdict
from pytest_sdperf.fusing.explain import Explanation, Unfused

AGREEMENT = Agreement(
    "image", "relative-l2", 1e-3, 1e-3, 2e-3, "float16", "float32", "image[0]", details={"psnr_db": 40.0}
)
MEASURED = measurement(health=("hot",), graph_hashes={"unet": "abc"}, counts=COUNTS)

REPORTS = [
    CaseReport("a::b", CASE),
    compared("a::b", CASE, AGREEMENT, measurement=MEASURED, verdicts=judge(MEASURED, stored(), policy=Policy())),
    CaseReport("a::b", CASE, measurement(), judge(measurement(), stored(), policy=Policy()), problem="assert False"),
    CaseReport("a::b", dataclasses.replace(CASE, engine_options=(("threads", "2"),)), failed("crash", "x", "tail")),
    CaseReport(
        "a::b",
        CASE,
        checks=fused(
            {"a::B": 1},
            {"a::B": 2},
            explanation=Explanation({"a::B": ["x"]}, (Unfused("a::B", "x", "no"),)),
            counted=known({"a::B": 1}),
        ),
        verdicts=(Verdict(Outcome.GAP, "below-target", "It lacks B.", "fusions", details=("B at x: no",)),),
    ),
]


@pytest.mark.parametrize("report", REPORTS)
def test_a_report_survives_json(report):
    assert convert(json.loads(json.dumps(to_json(report))), CaseReport) == report


def verdict(outcome: Outcome, metric: str) -> Verdict:
    return Verdict(outcome, "code", "Sentence.", metric)


def test_the_worst_verdict_speaks_for_a_case_and_for_a_metric():
    report = CaseReport(
        "a", CASE,
        verdicts=(verdict(Outcome.HELD, "latency"), verdict(Outcome.GAP, "counts"), verdict(Outcome.NEW, "counts")),
    )  # fmt: skip
    assert report.outcome is Outcome.GAP
    assert report.verdict("counts") == verdict(Outcome.GAP, "counts")
    assert report.verdict("latency") == verdict(Outcome.HELD, "latency")
    assert report.verdict("agreement") is None


def test_a_test_that_judged_nothing_has_no_outcome():
    assert CaseReport("a", CASE).outcome is None


def test_an_agreement_is_passed_or_failed_as_anything_that_nothing_stored_judges():
    within = Agreement("component", "relative-l2", 1e-3, 1e-3, 2e-3, "float16", "float32")
    beyond, nan = (dataclasses.replace(within, error=error) for error in (3e-3, float("nan")))
    held = Verdict(Outcome.HELD, "latency-inside-interval", "S.", "latency")

    def outcome(*agreements, verdicts=()):
        return compared("t", case(), *agreements, verdicts=verdicts).outcome

    assert (outcome(within), outcome(within, verdicts=(held,))) == (Outcome.PASSED, Outcome.HELD)
    assert outcome(within, beyond, verdicts=(held,)) is Outcome.FAILED
    assert outcome(nan) is Outcome.FAILED
    # Side A of an A/B alone makes B no worse: a verdict says what it is.
    assert compared_sides("t", case(), {"A": [beyond], "B": [within]}).outcome is Outcome.INVALID
    assert compared_sides("t", case(), {"A": [beyond], "B": [beyond]}).outcome is Outcome.FAILED
