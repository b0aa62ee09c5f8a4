"""Derived targets: which verdict follows, and what it says."""

from __future__ import annotations

import pytest
from sample_values import case, operators
from sample_values import known as stored

from pytest_sdperf.checks.fusions.check import Fused
from pytest_sdperf.checks.fusions.target import judge_against_target as judge
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.core.values.outcomes import Outcome
from pytest_sdperf.fusing.explain import Explanation, Unfused

MHA = "com.microsoft::MultiHeadAttention"
QKV = f"{MHA}[packed-qkv]"
GELU = "com.microsoft::Gelu"
CONV = "com.microsoft::NhwcConv"
TARGET = {MHA: 0, QKV: 16, CONV: 98, "::Conv": 0}
ALL = {QKV: 16, CONV: 98, "::Add": 5}
CASE = case(engine="", optimization="bias-add")
WHAT = "The unet graph of sd15-thin at bias-add, fused by ort,"

PASSED, IMPROVED, NEW, GAP = Outcome.PASSED, Outcome.IMPROVED, Outcome.NEW, Outcome.GAP
FAILED, REGRESSED, INVALID = Outcome.FAILED, Outcome.REGRESSED, Outcome.INVALID

# counts, counts that are known, outcome, code, end of the sentence
TABLE = [
    (ALL, None, PASSED, "as-derived", "has every operator that its torch module allows (114)."),
    ({**ALL, QKV: 15, MHA: 1}, None, FAILED, "operators-missing",
     ("lacks operators that its torch module allows: 1 MultiHeadAttention left, MultiHeadAttention[packed-qkv] 15 of "
     "16.")),
    ({**ALL, "::Conv": 2}, None, FAILED, "operators-missing",
     "lacks operators that its torch module allows: 2 Conv left."),
    ({**ALL, QKV: 17}, None, PASSED, "as-derived",
     ("has every operator that its torch module allows (114), and more: MultiHeadAttention[packed-qkv] 17 instead of "
     "16.")),
    ({**ALL, QKV: 17}, {QKV: 16}, IMPROVED, "more-fused",
     "has more operators than known: MultiHeadAttention[packed-qkv] 17 instead of 16."),
    # A foreign optimizer against nothing, against what it is known to reach, and against less than that.
    ({CONV: 98}, {}, NEW, "below-target-unknown",
     ("lacks operators that its torch module allows, and nothing is stored to compare it: "
     "MultiHeadAttention[packed-qkv] 0 of 16.")),
    (ALL, {}, PASSED, "as-derived", "has every operator that its torch module allows (114)."),
    # A target of 0 is a target too: of what is left where nothing is stored, nothing can have been lost.
    ({CONV: 97, "::Conv": 1}, {}, NEW, "below-target-unknown",
     ("lacks operators that its torch module allows, and nothing is stored to compare it: 1 Conv left, "
     "MultiHeadAttention[packed-qkv] 0 of 16, NhwcConv 97 of 98.")),
    ({**ALL, MHA: 16}, {}, NEW, "below-target-unknown",
     ("lacks operators that its torch module allows, and nothing is stored to compare it: "
     "16 MultiHeadAttention left.")),
    # Stored, but before this operator was counted: of that one nothing is known.
    ({CONV: 98, "::Conv": 1}, {CONV: 98, QKV: 0}, NEW, "below-target-unknown",
     "lacks operators that its torch module allows, and nothing is stored to compare it: 1 Conv left."),
    ({CONV: 97, "::Conv": 1}, {CONV: 98, QKV: 0}, REGRESSED, "operators-lost", "lost operators: NhwcConv 97 of 98."),
    ({CONV: 98}, {CONV: 98, QKV: 0}, GAP, "below-target",
     "lacks operators that its torch module allows, as it is known to: MultiHeadAttention[packed-qkv] 0 of 16."),
    ({CONV: 98, MHA: 16}, {CONV: 98, MHA: 16, QKV: 0}, GAP, "below-target",
     ("lacks operators that its torch module allows, as it is known to: 16 MultiHeadAttention left, "
     "MultiHeadAttention[packed-qkv] 0 of 16.")),
    ({CONV: 97}, {CONV: 98}, REGRESSED, "operators-lost", "lost operators: NhwcConv 97 of 98."),
    (ALL, {CONV: 98, MHA: 16, QKV: 0}, IMPROVED, "more-fused",
     ("has more operators than known: MultiHeadAttention 0 instead of 16, "
     "MultiHeadAttention[packed-qkv] 16 instead of 0.")),
    # Attention that was fused and is neither fused nor packed any more is lost, although none may be left.
    ({CONV: 98}, {CONV: 98, MHA: 16, QKV: 0}, REGRESSED, "operators-lost",
     "lost operators: MultiHeadAttention 0 of 16."),
    ({**ALL, "::Conv": 2}, {**ALL, "::Conv": 4}, GAP, "below-target",
     "lacks operators that its torch module allows, as it is known to: 2 Conv left."),
    # Forms that the stored counts do not tell apart: nothing is known of either, and nothing can be lost.
    ({CONV: 98, MHA: 16}, {CONV: 98, MHA: 32}, NEW, "below-target-unknown",
     ("lacks operators that its torch module allows, and nothing is stored to compare it: 16 MultiHeadAttention left, "
     "MultiHeadAttention[packed-qkv] 0 of 16.")),
    ({**ALL, "::Conv": 4}, {**ALL, "::Conv": 2}, REGRESSED, "operators-lost", "lost operators: 4 Conv left."),
]  # fmt: skip


def judge_against_target(of, counts, target, *, known, most=None, **fields):
    return judge(of, operators(counts, target, budgets=most or {}, **fields), known=known)


@pytest.mark.parametrize(("counts", "known", "outcome", "code", "end"), TABLE)
def test_verdicts(counts, known, outcome, code, end):
    verdict = judge_against_target(CASE, counts, TARGET, known=None if known is None else stored(known))
    assert (verdict.outcome, verdict.code, verdict.sentence) == (outcome, code, f"{WHAT} {end}")
    assert verdict.details == ()


@pytest.mark.parametrize(
    ("counts", "outcome", "code", "end"),
    [
        ({CONV: 97}, REGRESSED, "operators-lost", "lost operators that onnxruntime 1.32 made: NhwcConv 97 of 98."),
        ({CONV: 98}, GAP, "below-target",
         ("lacks operators that its torch module allows, as onnxruntime 1.32 does: MultiHeadAttention[packed-qkv] 0 of "
         "16.")),
        (ALL, IMPROVED, "more-fused",
         "has more operators than onnxruntime 1.32 makes: MultiHeadAttention[packed-qkv] 16 instead of 0."),
    ],
)  # fmt: skip
def test_a_release_of_which_nothing_is_known_is_judged_by_an_older_one(counts, outcome, code, end):
    verdict = judge_against_target(CASE, counts, TARGET, known=stored({CONV: 98, MHA: 0, QKV: 0, "::Conv": 0}, "1.32"))
    assert (verdict.outcome, verdict.code, verdict.sentence) == (outcome, code, f"{WHAT} {end}")


@pytest.mark.parametrize("target", [{}, {"::Conv": 0}])
@pytest.mark.parametrize(
    ("counts", "outcome", "code", "end"),
    [
        ({"::Conv": 5}, PASSED, "as-derived", "holds no fused operators, as it must."),
        ({}, INVALID, "graph-empty", "has no nodes."),
        ({"::Conv": 5, GELU: 2}, FAILED, "unexpected-operators",
         "must hold the exporter's operators alone, but has fused ones: com.microsoft::Gelu 2."),
    ],
)  # fmt: skip
def test_a_graph_that_has_nothing_to_fuse(target, counts, outcome, code, end):
    verdict = judge_against_target(CASE, counts, target, known=None)
    assert (verdict.outcome, verdict.code, verdict.sentence) == (outcome, code, f"{WHAT} {end}")


@pytest.mark.parametrize(("left", "code"), [(0, "as-derived"), (2, "as-derived"), (3, "operators-missing")])
def test_operators_of_onnx_have_a_budget(left, code):
    counts = {**ALL, "::Transpose": left}
    verdict = judge_against_target(CASE, counts, TARGET, known=None, most={"::Transpose": 2})
    assert verdict.code == code
    if left > 2:
        assert verdict.sentence == f"{WHAT} lacks operators that its torch module allows: 3 Transpose left (at most 2)."


def test_what_is_left_is_told_with_its_place():
    places = [f"down_blocks.{number}.norm (Transpose_{number})" for number in range(9)]
    most = {"::Transpose": 2}

    def details(count, counts=ALL, known=None):
        explanation = Explanation(left={"::Transpose": tuple(places[:count])})
        left = {**counts, "::Transpose": count}
        return judge_against_target(CASE, left, TARGET, known=known, most=most, explanation=explanation).details

    assert details(3) == (f"Transpose left at {', '.join(places[:3])}",)
    assert details(9) == (f"Transpose left at {', '.join(places[:3])}, and 6 more: --sdperf-explain=FILE",)
    assert details(3, known=stored({**ALL, "::Transpose": 3})) == (f"Transpose left at {', '.join(places[:3])}",)
    # Transposes stay where an operator is missing: that one is to be looked at.
    assert details(3, {**ALL, CONV: 97}) == ()


def test_what_stays_because_an_operator_is_missing_is_not_named_beside_it():
    counts = {**ALL, CONV: 97, "::Transpose": 4}
    verdict = judge_against_target(CASE, counts, TARGET, known=None, most={"::Transpose": 2})
    assert verdict.sentence == f"{WHAT} lacks operators that its torch module allows: NhwcConv 97 of 98."


LAYOUT = "::Transpose"


@pytest.mark.parametrize(
    ("counts", "known", "outcome", "code", "end"),
    [
        # Where operators are all there, more transposes than the module needs are what is lacking, ...
        ({**ALL, LAYOUT: 74}, {**ALL, MHA: 0, "::Conv": 0, LAYOUT: 74}, GAP, "below-target",
         "lacks operators that its torch module allows, as it is known to: 74 Transpose left (at most 2)."),
        ({**ALL, LAYOUT: 75}, {**ALL, MHA: 0, "::Conv": 0, LAYOUT: 74}, REGRESSED, "operators-lost",
         "lost operators: 75 Transpose left (at most 74)."),
        ({**ALL, LAYOUT: 2}, {**ALL, MHA: 0, "::Conv": 0, LAYOUT: 74}, IMPROVED, "more-fused",
         "has more operators than known: Transpose 2 instead of 74."),
        # ... and nobody is told off for what the module needs.
        ({**ALL, LAYOUT: 2}, {**ALL, MHA: 0, "::Conv": 0, LAYOUT: 0}, PASSED, "as-derived",
         "has every operator that its torch module allows (114)."),
        # Counts that were stored without them say nothing of them.
        ({**ALL, LAYOUT: 74}, {**ALL, MHA: 0, "::Conv": 0}, NEW, "below-target-unknown",
         ("lacks operators that its torch module allows, and nothing is stored to compare it: 74 Transpose left (at "
         "most 2).")),
        ({**ALL, LAYOUT: 74}, {}, NEW, "below-target-unknown",
         ("lacks operators that its torch module allows, and nothing is stored to compare it: 74 Transpose left (at "
         "most 2).")),
        # Also where operators are missing, as they are known to be.
        ({CONV: 98, LAYOUT: 322}, {CONV: 98, QKV: 0, LAYOUT: 322}, GAP, "below-target",
         "lacks operators that its torch module allows, as it is known to: MultiHeadAttention[packed-qkv] 0 of 16."),
        ({CONV: 98, LAYOUT: 323}, {CONV: 98, QKV: 0, LAYOUT: 322}, REGRESSED, "operators-lost",
         "lost operators: 323 Transpose left (at most 322)."),
        # What is made for the first time may stand between two of them.
        ({**ALL, CONV: 98, LAYOUT: 354}, {CONV: 98, QKV: 0, MHA: 0, "::Conv": 0, LAYOUT: 322}, GAP, "below-target",
         "lacks operators that its torch module allows, as it is known to: 354 Transpose left (at most 2)."),
        ({**ALL, CONV: 98, LAYOUT: 355}, {CONV: 98, QKV: 0, MHA: 0, "::Conv": 0, LAYOUT: 322}, REGRESSED,
         "operators-lost", "lost operators: 355 Transpose left (at most 354)."),
    ],
)  # fmt: skip
def test_the_layout_of_a_foreign_optimizer_is_held_to_what_is_known_of_it(counts, known, outcome, code, end):
    verdict = judge_against_target(CASE, counts, TARGET, known=stored(known), most={LAYOUT: 2})
    assert (verdict.outcome, verdict.code, verdict.sentence) == (outcome, code, f"{WHAT} {end}")


def test_what_was_lost_is_explained_before_what_was_never_there():
    missing = [Unfused(QKV, f"unet.b.{i}.attn1", "left", QKV, f"node_softmax_{i}", "Softmax") for i in range(16)]
    missing.append(Unfused(CONV, "unet.conv_in", "no candidate node was found there"))
    verdict = judge_against_target(
        CASE, {CONV: 97}, TARGET, known=stored({CONV: 98}), explanation=Explanation(TARGET, tuple(missing))
    )
    assert verdict.text.splitlines() == [
        f"{WHAT} lost operators: NhwcConv 97 of 98. [operators-lost]",
        "  NhwcConv at conv_in: no candidate node was found there",
        "  MultiHeadAttention[packed-qkv] at b.0.attn1 and 15 more: left (Softmax node_softmax_0)",
        "  each of them: --sdperf-explain=FILE",
    ]


@pytest.mark.parametrize(("sites", "last"), [(9, "and 6 more: sites.json"), (3, None)])
def test_where_every_place_is_written_its_file_is_named_and_no_option(sites, last):
    missing = [Unfused(QKV, f"unet.b.{i}.attn1", f"left by rule {i}", QKV) for i in range(sites)]
    verdict = judge_against_target(
        CASE, {}, TARGET, known=None, explanation=Explanation(TARGET, tuple(missing)), every_place="sites.json"
    )
    assert (verdict.details[3:] or (None,)) == (last,)


def test_a_fuser_that_left_no_record():
    explained = [Explanation(TARGET, notes=notes, located=False) for notes in ((), ("TypeError: x",))]
    details = [judge_against_target(CASE, {CONV: 97}, TARGET, known=None, explanation=one).details for one in explained]
    assert details == [
        ("where and why is not known: the fuser left no record",),
        ("where and why is not known: TypeError: x",),
    ]


def test_a_graph_that_has_everything_needs_no_details():
    explanation = Explanation(TARGET, located=False)
    assert judge_against_target(CASE, ALL, TARGET, known=None, explanation=explanation).details == ()


def test_a_target_may_be_derived_from_the_graph_itself():
    verdict = judge_against_target(CASE, ALL, TARGET, known=None, allowed_by="own structure")
    assert verdict.sentence == f"{WHAT} has every operator that its own structure allows (114)."


def test_of_a_graph_of_somebody_else_no_release_of_an_optimizer_that_did_not_touch_it_says_anything():
    told = {
        fuser: Fused()
        .judge(
            operators({CONV: 97}, TARGET, external=True),
            case(engine="", optimization="bias-add", fuser=fuser, exporter="external", weights="onnx-1"),
            policy=Policy(),
            stored=stored({CONV: 98}, "1.31"),
        )
        .sentence.partition(", ")[2]
        for fuser in ("ort", "native")
    }
    assert told == {
        "ort": "fused by ort, lost operators that onnxruntime 1.31 made: NhwcConv 97 of 98.",
        "native": "fused by native, lost operators: NhwcConv 97 of 98.",
    }


STORED = {GAP, IMPROVED, REGRESSED}
WIDE = {"::Conv": 2, QKV: 1}
IN_FLOAT32 = "computes 2 Conv, 1 MultiHeadAttention[packed-qkv] in float32, though its weights are half precision"


@pytest.mark.parametrize("known", [None, {}, {CONV: 98, QKV: 16}], ids=["own", "unknown", "known"])
def test_products_of_our_own_export_that_left_half_precision_fail(known):
    found = stored(known) if known is not None else None
    verdict = judge_against_target(CASE, ALL, TARGET, known=found, float32_products=WIDE)
    assert (verdict.outcome, verdict.code, verdict.sentence) == (
        FAILED,
        "half-precision-lost",
        f"{WHAT} {IN_FLOAT32}.",
    )


UNSEEN, SEEN = (NEW, "half-precision-unknown"), (GAP, "half-precision-missing")


@pytest.mark.parametrize(("known", "means"), [({}, UNSEEN), ({CONV: 98, QKV: 16}, SEEN)], ids=["unseen", "seen"])
def test_somebody_else_may_have_wanted_products_in_float32(known, means):
    verdict = judge_against_target(CASE, ALL, TARGET, known=stored(known), float32_products=WIDE, external=True)
    assert (verdict.outcome, verdict.code, verdict.sentence) == (*means, f"{WHAT} {IN_FLOAT32}.")
    assert verdict.told


def test_operators_that_are_missing_besides_are_named_first():
    verdict = judge_against_target(CASE, {CONV: 98}, TARGET, known=None, float32_products=WIDE)
    assert (verdict.outcome, verdict.code) == (FAILED, "operators-missing")
    lacks = "lacks operators that its torch module allows: MultiHeadAttention[packed-qkv] 0 of 16"
    assert verdict.sentence == f"{WHAT} {lacks}, and {IN_FLOAT32}."


@pytest.mark.parametrize(
    ("external", "known", "means"),
    [(False, None, (FAILED, "half-precision-lost")), (True, {}, UNSEEN), (True, {CONV: 98}, SEEN)],
)
def test_a_graph_with_nothing_to_fuse_is_asked_for_half_precision_too(external, known, means):
    found = stored(known) if known is not None else None
    verdict = judge_against_target(
        CASE, {"::Conv": 5}, {}, known=found, float32_products={"::Conv": 5}, external=external
    )
    assert (verdict.outcome, verdict.code) == means
    assert verdict.sentence == f"{WHAT} computes 5 Conv in float32, though its weights are half precision."


@pytest.mark.parametrize("known", [None, {}, {CONV: 98}], ids=["own", "unseen", "seen"])
@pytest.mark.parametrize("got", [{}, {CONV: 97}, {CONV: 98}, ALL])
@pytest.mark.parametrize("wide", [{}, WIDE])
def test_a_verdict_speaks_of_something_stored_or_of_a_limit_and_never_of_both(known, got, wide):
    """Of our own nothing is stored; of others what was never seen cannot be worse, and what was seen is not NEW."""
    counts, found = {"::Add": 1, **got}, stored(known) if known is not None else None
    verdict = judge_against_target(CASE, counts, TARGET, known=found, float32_products=wide, external=known is not None)
    allowed = {PASSED, FAILED} if known is None else {PASSED, NEW} if not known else {PASSED, NEW, *STORED}
    assert verdict.outcome in allowed
    assert verdict.told == (verdict.outcome is not PASSED)
