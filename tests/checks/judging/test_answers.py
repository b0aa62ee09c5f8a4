"""Processes that gave different answers to the same inputs: a broken promise fails, and anything else is remarked."""

from __future__ import annotations

import dataclasses

import pytest
from sample_values import measurement, sample_with

from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.judging.verdict import judge
from pytest_sdperf.checks.pipelines.judging.answers import Answers
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.core.files.strict_json import convert
from pytest_sdperf.core.values import Measurement, to_json
from pytest_sdperf.core.values.outcomes import Outcome
from pytest_sdperf.report.remarks import remark_lines


def answered(digests: str, *, promised: bool = True, replaced: str = "", compared: str = "") -> Measurement:
    """Return what processes measured that answered `a`, `b`, ...; a blank is one that told nothing."""

    def samples(told: str) -> tuple:
        facts = [{"answer": {"digest": one, "promised": promised}} if one != " " else {} for one in told]
        return tuple(sample_with(**one) for one in facts)

    return dataclasses.replace(
        measurement(), samples=samples(digests), replaced=samples(replaced), answer=compared, subject={}
    )


def judge_answers(found):
    return Answers().judge(found, None, policy=Policy())


def remark_of(found):
    return Answers().remark(found)


BROKEN = " to the same inputs, and ort-cpu promises equal bits for equal calls on this kind of device."


@pytest.mark.parametrize(
    ("found", "several"),
    [
        (answered("aab"), "2 answers in 3 processes"),
        (answered("abc"), "3 answers in 3 processes"),
        (answered("aaa", replaced="b"), "2 answers in 4 processes"),
        (answered("ab a"), "2 answers in 3 processes"),
        (answered("aaa", compared="b"), "2 answers in 4 processes, one of which was compared with a reference,"),
        (answered("a", compared="b"), "2 answers in 2 processes, one of which was compared with a reference,"),
    ],
)
def test_a_promise_of_equal_bits_that_is_not_kept_fails(found, several):
    verdict = judge_answers(found)
    assert verdict is not None
    assert (verdict.outcome, verdict.code, verdict.metric) == (Outcome.FAILED, "bits-differ", "answers")
    assert verdict.sentence == f"UNet: {several}{BROKEN}"
    assert remark_of(found) is None
    # The gate, which has nothing but the file, says the same.
    read = convert(to_json(found), Measurement)
    assert verdict in judge(read, None, policy=Policy(processes=1))


@pytest.mark.parametrize(
    "found",
    [answered("aaa"), answered("aaa", compared="a"), answered("   "), answered("   ", compared="a"), answered("a")],
)
@pytest.mark.parametrize("promised", [True, False])
def test_equal_answers_and_those_that_nobody_knows_say_nothing(found, promised):
    samples = tuple(
        dataclasses.replace(one, facts={"answer": {**one.facts["answer"], "promised": promised}} if one.facts else {})
        for one in found.samples
    )
    found = dataclasses.replace(found, samples=samples)
    assert (judge_answers(found), remark_of(found)) == (None, None)


def test_where_nothing_was_promised_a_remark_says_how_many_answers_there_were():
    found = answered("aba", promised=False, compared="c")
    assert judge_answers(found) is None
    (line,) = remark_lines([CaseReport("a test", found.case, found)], width=200)
    assert line.text == (
        "3 answers in 4 processes, one of which was compared with a reference, to the same inputs; the engine does not "
        "promise equal bits (sd15-thin unet fp16 (ort) ort-cpu)"
    )
