"""What is said of the blocks inside a component: all right, one of them wrong, or nobody can look."""

from __future__ import annotations

import dataclasses
import re

import pytest
from sample_values import case, compared

from pytest_sdperf.checks.agreement.joints import agreement_of
from pytest_sdperf.checks.agreement.judging import judge_agreements
from pytest_sdperf.core.values.outcomes import Agreement, JointAgreement
from pytest_sdperf.report.checks import check_lines
from pytest_sdperf.tasks.joints import JointsCompared

MID = "unet.mid_block.resnets.0"
RIGHT = (
    JointAgreement(1e-4, 2e-4, 4e-4, "unet.down_blocks.0.resnets.0"),
    JointAgreement(3e-4, 2e-4, 4e-4, MID),
    JointAgreement(1e-4, 2e-4, 4e-4, "unet.up_blocks.0", "0"),
    JointAgreement(1e-4, 2e-4, 4e-4, "", "out_sample"),
)
WHOLE = Agreement("component", "relative-l2", 1.57e-3, 1.75e-3, 3.5e-3, "float16", "float32", "out_sample[0]")
HIDDEN = dataclasses.replace(WHOLE, hidden="what torch-compile compiles as one cannot be looked into")


def inside(*joints: JointAgreement, roundings: int = 1) -> Agreement:
    return agreement_of(JointsCompared(joints, 3, roundings), WHOLE, component="unet")


def wrong(place: int) -> tuple[JointAgreement, ...]:
    return tuple(dataclasses.replace(one, error=1e-2) if place == number else one for number, one in enumerate(RIGHT))


def said(*agreements: Agreement) -> tuple[str, str, str]:
    verdict = judge_agreements(agreements, metric="agreement")
    return verdict.outcome.value, verdict.code, verdict.sentence


BEHIND = (
    "is computed wrong, though the outputs agree: from what the engine itself has before it, relative L2 error "
    "1.00e-02 against torch float32; plain torch float16 has 2.00e-04 in the worst of 5 roundings, so at most 4.00e-04 "
    "passes. 2 of 3 blocks could be compared."
)


@pytest.mark.parametrize(
    ("place", "begins"),
    [
        (1, "mid_block.resnets.0 of the unet"),
        (2, "What up_blocks.0 of the unet reads"),
        (3, "out_sample of the unet"),
    ],
)
def test_a_joint_beyond_its_limit_is_named_first(place, begins):
    assert said(WHOLE, inside(*wrong(place), roundings=5)) == ("FAILED", "joints", f"{begins} {BEHIND}")


def test_how_many_are_wrong_is_said():
    both = (*wrong(0)[:1], *wrong(1)[1:])
    assert said(WHOLE, inside(*both, roundings=5))[2] == (
        f"down_blocks.0.resnets.0 of the unet {BEHIND} 1 more place further on is wrong too."
    )


def test_joints_that_agree_say_how_near():
    assert said(WHOLE, inside(*RIGHT))[:2] == ("PASSED", "outputs-agree")
    assert said(WHOLE, inside(*RIGHT))[2] == (
        "2 of 3 blocks could be compared, each from what the engine itself has before it; nearest to its limit is "
        "mid_block.resnets.0 of the unet with a relative L2 error 3.00e-04 against torch float32, where at most "
        "4.00e-04 passes."
    )


def test_nobody_can_look_inside():
    assert said(HIDDEN)[2] == (
        "The component has a relative L2 error 1.57e-03 against torch float32; plain torch float16 has 1.75e-03, so at "
        "most 3.50e-03 passes. Nothing inside was compared: what torch-compile compiles as one cannot be looked into."
    )


def rows(*agreements: Agreement) -> list[str]:
    report = compared("t", case(model="sd15", engine="ort-cuda"), *agreements)
    return [line.text for line in check_lines([report], width=100)][1:]


LEGEND = [
    "  error: relative-l2 to the reference (float16 against float32); limit: 2 x the error of plain torch",
    "  in the same type; of joints: what each block reads and gives, computed again from what the engine",
    "  itself has before it, shown is the nearest to its limit",
]


def test_the_table_says_how_many_blocks_were_compared_and_the_nearest():
    assert rows(WHOLE, inside(*RIGHT, roundings=5))[1:] == [
        "  sd15 unet joints fp16 (ort) ort-cuda  3.00e-04  4.00e-04      75 %",
        "    2 of 3 blocks, nearest: mid_block.resnets.0 of the unet",
        *LEGEND,
    ]


def test_the_table_says_where_a_block_is_wrong():
    assert rows(WHOLE, inside(*wrong(1)))[2] == ("    FAILED: 2 of 3 blocks; begins at mid_block.resnets.0 of the unet")


def test_the_table_says_why_nobody_can_look_inside():
    assert rows(HIDDEN)[1] == (
        "    nothing inside was compared: what torch-compile compiles as one cannot be looked into"
    )


NEAREST = r"4 of 4 blocks, nearest: (what )?\S+ of the text_encoder"
WRONG = (
    r"FAILED: encoder\.layers\.0 of the text_encoder is computed wrong, though the outputs agree: from what the engine "
    r"itself has before it, relative L2 error 1\.\d\de-03 against torch float32; plain torch float16 has \S+ in the "
    r"worst of 5 roundings, so at most \S+ passes\. 4 of 4 blocks could be compared\. \[joints\]"
)
COMPILED = "nothing inside was compared: what compiling compiles as one cannot be looked into"
SILENT = "nothing inside was compared: silent does not tell what its modules read and give"


@pytest.mark.parametrize(
    ("engine", "told"),
    [("torch", NEAREST), ("wrong", WRONG), ("compiling", COMPILED), ("silent", SILENT)],
    ids=lambda value: value if value.isalpha() else "",
)
def test_an_engine_is_looked_into(type_in, engine, told):
    case = "--model=shapes --component=text_encoder --optimization=fp16"
    result = type_in(f"pytest suites/test_agreement.py -v {case} --engine={engine}", "-p", "joint_engines")
    result.assert_outcomes(**{"failed" if engine == "wrong" else "passed": 1})
    assert re.search(told, " ".join(result.stdout.str().split()))
