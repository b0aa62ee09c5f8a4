"""What is said about a graph that was taken as it is."""

from __future__ import annotations

import pytest
from sample_values import operators

from pytest_sdperf.checks.fusions.check import judge_as_is as judge
from pytest_sdperf.checks.fusions.table import standing_lines
from pytest_sdperf.core.values import Case
from pytest_sdperf.core.values.outcomes import Outcome, Verdict

CASE = Case("sd15", "unet", "", "as-is", exporter="external", opset=18, shapes="static", weights="onnx-0")
EXPECTED = {"com.microsoft::MultiHeadAttention": 32, "com.microsoft::NhwcConv": 98}


# Whether its counts are stored -> what it means that something could be fused further.
FURTHER = {False: (Outcome.NEW, "optimizations-missing-unknown"), True: (Outcome.GAP, "optimizations-missing")}
SEEN = pytest.mark.parametrize("seen", FURTHER)


def judge_as_is(of, counts, standing, *, expected, target=None, seen=False, **fields):
    return judge(of, operators(counts, expected, allowed=target or {}, standing=standing, **fields), seen=seen)


@SEEN
def test_a_graph_that_could_be_fused_further_is_new_and_then_a_gap(seen):
    optimizations = {"fp16": "yes", "fmha": "yes", "nhwc-conv": "no (98 Conv left)", "bias-add": "has nothing to fuse"}
    counts = {"com.microsoft::MultiHeadAttention": 32, "::Conv": 98}
    assert judge_as_is(CASE, counts, optimizations, expected=EXPECTED, seen=seen) == Verdict(
        *FURTHER[seen],
        "The unet graph of sd15, taken as it is, could be fused further: nhwc-conv no (98 Conv left).",
        "fusions",
        32.0,
        130.0,
    )


def test_a_graph_with_every_optimization_passes():
    optimizations = {"fp16": "yes", "fmha": "yes", "bias-add": "has nothing to fuse"}
    assert judge_as_is(CASE, EXPECTED, optimizations, expected=EXPECTED) == Verdict(
        Outcome.PASSED,
        "as-is-complete",
        "The unet graph of sd15, taken as it is, has every optimization of the ladder that its structure allows.",
        "fusions",
        130.0,
        130.0,
    )


@SEEN
def test_a_graph_without_what_its_module_allows_is_told_although_no_fusion_could_begin(seen):
    optimizations = {"fp16": "yes", "fmha": "has nothing to fuse", "nhwc-conv": "yes"}
    counts = {"com.microsoft::NhwcConv": 98, "::Transpose": 2}
    verdict = judge_as_is(
        CASE,
        counts,
        optimizations,
        expected=counts,
        target={**EXPECTED, "::Conv": 0},
        most={"::Transpose": 2},
        seen=seen,
    )
    assert verdict == Verdict(
        *FURTHER[seen],
        "The unet graph of sd15, taken as it is, lacks operators that its torch module allows, in a form in which no "
        "fusion begins: MultiHeadAttention 0 of 32.",
        "fusions",
        100.0,
        130.0,
    )


def test_a_graph_with_more_transposes_than_its_module_needs_is_told():
    optimizations, counts = {"fp16": "yes"}, {**EXPECTED, "::Transpose": 3}
    verdict = judge_as_is(CASE, counts, optimizations, expected=EXPECTED, target=EXPECTED, most={"::Transpose": 2})
    assert (verdict.outcome, verdict.sentence) == (
        Outcome.NEW,
        (
            "The unet graph of sd15, taken as it is, lacks operators that its torch module allows, in a form in which "
            "no fusion begins: 3 Transpose left (at most 2)."
        ),
    )
    passed = judge_as_is(
        CASE, {**counts, "::Transpose": 2}, optimizations, expected=EXPECTED, target=EXPECTED, most={"::Transpose": 2}
    )
    assert passed.outcome is Outcome.PASSED


def test_one_line_per_component():
    found = {"unet": {"fp16": "yes", "nhwc-conv": "no (98 Conv left)"}, "vae_decoder": {"fp16": "yes"}}
    assert standing_lines(found) == [
        "optimizations of unet: fp16 yes, nhwc-conv no (98 Conv left)",
        "optimizations of vae_decoder: fp16 yes",
    ]


@pytest.mark.parametrize(
    ("seen", "means"),
    [(False, (Outcome.NEW, "half-precision-unknown")), (True, (Outcome.GAP, "half-precision-missing"))],
)
def test_a_graph_that_leaves_half_precision_says_so_whatever_else_is_said(seen, means):
    wide = {"::MatMul": 32}
    said = "computes 32 MatMul in float32, though its weights are half precision"
    whole = judge_as_is(CASE, EXPECTED, {"fp16": "yes"}, expected=EXPECTED, float32_products=wide, seen=seen)
    assert (whole.outcome, whole.code) == means
    assert whole.sentence == f"The unet graph of sd15, taken as it is, {said}."
    further = judge_as_is(CASE, EXPECTED, {"fmha": "no"}, expected=EXPECTED, float32_products=wide)
    assert further.sentence == f"The unet graph of sd15, taken as it is, could be fused further: fmha no; it {said}."
    without = {**EXPECTED, "com.microsoft::NhwcConv": 0}
    lacking = judge_as_is(CASE, without, {}, expected=without, target=EXPECTED, float32_products=wide)
    assert lacking.sentence.endswith(f"in a form in which no fusion begins: NhwcConv 0 of 98; it {said}.")
