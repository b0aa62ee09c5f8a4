from __future__ import annotations

import json
import subprocess
import sys

import pytest

from pytest_sdperf.core.files.strict_json import convert
from pytest_sdperf.core.values import to_json
from pytest_sdperf.fusing.explain import (
    GONE,
    NO_CANDIDATE,
    PLAIN,
    Explanation,
    Unfused,
    assign,
    explain,
    sentences,
)
from pytest_sdperf.fusing.record import Site

MHA = "com.microsoft::MultiHeadAttention"
GELU = "com.microsoft::Gelu"
SPLIT = "com.microsoft::BiasSplitGelu"
NORM = "com.microsoft::GroupNorm"
SKIP = "com.microsoft::SkipGroupNorm"


def unfused(expected, seen, counts):
    return list(explain(expected, seen, counts).unfused)


def test_what_is_counted_needs_no_explanation():
    expected = {MHA: ["a.attn1", "a.attn2"]}
    # It was refused by the rule that would pack it: the plain one is there all the same.
    seen = [Site(MHA, "a.attn1"), Site(MHA, "a.attn2"), Site(MHA, "a.attn1", "n", "Add", "it has a bias")]
    assert explain(expected, seen, {MHA: 2}) == Explanation({MHA: ("a.attn1", "a.attn2")})


def test_the_refusal_at_the_path_is_the_reason():
    seen = [Site(MHA, "a.attn1", "f"), Site(MHA, "a.attn2", "node_add", "Add", "a mask is added")]
    assert unfused({MHA: ["a.attn1", "a.attn2"]}, seen, {MHA: 1}) == [
        Unfused(MHA, "a.attn2", "a mask is added", MHA, "node_add", "Add")
    ]


@pytest.mark.parametrize("said", ["block.0", "block.0.ff", "block.0.ff.net.2", ""])
def test_exporters_differ_in_how_deep_they_name(said):
    seen = [Site(GELU, said, "n", "Erf", "it is no Gelu")]
    assert unfused({GELU: ["block.0.ff"]}, seen, {}) == [Unfused(GELU, "block.0.ff", "it is no Gelu", GELU, "n", "Erf")]


def test_a_path_that_only_begins_with_the_same_letters_is_another_one():
    seen = [Site(GELU, "blocks.1", "n", "Erf", "it is no Gelu")]
    assert unfused({GELU: ["blocks.10.ff"]}, seen, {}) == [Unfused(GELU, "blocks.10.ff", NO_CANDIDATE)]


def test_a_node_that_is_named_after_its_neighbour_belongs_to_what_is_left_over():
    expected = {SKIP: ["r.norm1", "r.norm2"]}
    seen = [Site(SKIP, "r.norm1"), Site(SKIP, "r.nonlinearity", "n", "Add", "of another shape")]
    assert unfused(expected, seen, {SKIP: 1}) == [Unfused(SKIP, "r.norm2", "of another shape", SKIP, "n", "Add")]
    done = [Site(SKIP, "r.norm1", "n", "Add", "of another shape"), Site(SKIP, "r.nonlinearity")]
    assert unfused(expected, done, {SKIP: 1}) == [Unfused(SKIP, "r.norm1", "of another shape", SKIP, "n", "Add")]


def test_a_form_is_kept_away_by_what_kept_the_plain_operator_away():
    seen = [Site(MHA, "attn2", "s", "Softmax", "refused too"), Site(MHA, "attn1", "n", "Add", "its key has a bias")]
    assert unfused({f"{MHA}[packed-qkv]": ["attn1"]}, seen, {MHA: 1}) == [
        Unfused(f"{MHA}[packed-qkv]", "attn1", "its key has a bias", MHA, "n", "Add")
    ]


def test_an_attention_is_not_explained_by_its_neighbour():
    seen = [Site(MHA, "attn2", "s", "Softmax", "refused")]
    assert unfused({f"{MHA}[packed-qkv]": ["attn1"]}, seen, {}) == [
        Unfused(f"{MHA}[packed-qkv]", "attn1", NO_CANDIDATE)
    ]


def test_an_operator_without_a_candidate_is_explained_by_the_one_that_it_takes_in():
    seen = [Site(NORM, "r", "i", "Mul", "far"), Site(NORM, "r.norm2", "m", "Mul", "its weight is no weight")]
    assert unfused({SKIP: ["r.norm2"]}, seen, {}) == [
        Unfused(SKIP, "r.norm2", "its weight is no weight", NORM, "m", "Mul")
    ]


def test_a_norm_without_its_activation_is_told_from_one_that_is_not_fused():
    silu = f"{NORM}[silu]"
    seen = [Site(silu, "r.norm1"), Site(NORM, "r.norm2"), Site(silu, "r.norm4")]
    assert unfused({silu: ["r.norm1", "r.norm2", "q.norm3", "r.norm4"]}, seen, {silu: 2, NORM: 1}) == [
        Unfused(silu, "r.norm2", PLAIN), Unfused(silu, "q.norm3", NO_CANDIDATE)
    ]  # fmt: skip


def test_where_no_rule_found_anything():
    assert unfused({GELU: ["a", "b"]}, [Site(GELU, "a")], {GELU: 1}) == [Unfused(GELU, "b", NO_CANDIDATE)]


def test_what_was_fused_and_is_gone():
    assert unfused({GELU: ["a", "b"]}, [Site(GELU, "a"), Site(GELU, "b")], {GELU: 1}) == [Unfused(GELU, "a", GONE)]


def test_counts_decide_how_many_are_missing():
    seen = [Site(GELU, path, reason="no") for path in "abcd"]
    assert [len(unfused({GELU: list("abcd")}, seen, {GELU: count})) for count in (0, 1, 3, 4, 9)] == [4, 3, 1, 0, 0]


def test_a_found_path_is_given_away_once_and_to_the_nearest():
    assert assign(["a.b", "a"], ["a"]) == {1: 0}
    assert assign(["a", "a.b"], ["a.b.c", "a.b.c"]) == {1: 0, 0: 1}
    assert assign(["r.norm"], ["r.act"]) == {0: 0}
    assert assign(["r.norm"], ["r.act"], neighbours=False) == {}
    assert assign([], ["a"]) == assign(["a"], []) == {}


def test_an_explanation_survives_json_and_knows_what_is_there():
    explanation = Explanation(
        {GELU: ["a", "b"], MHA: ["c"]}, (Unfused(GELU, "b", "no", GELU, "n", "Erf"),), ("limit",), ("note",)
    )
    assert convert(json.loads(json.dumps(to_json(explanation))), Explanation) == explanation
    assert explanation.fused == {GELU: ["a"], MHA: ["c"]}
    assert Explanation({GELU: ["a"]}, located=False).fused == {}


def test_the_first_problems_are_told_one_line_each():
    found = [
        Unfused(SPLIT, "unet.b.0.ff.net.0", "its result is not multiplied", GELU, "node_mul_3", "Mul"),
        Unfused(SPLIT, "unet.b.1.ff.net.0", "its result is not multiplied", GELU, "node_mul_9", "Mul"),
        Unfused(f"{MHA}[packed-kv]", "unet.b.0.attn2", "its key has a bias", MHA, "node_add", "Add"),
        Unfused(NORM, "unet.norm", NO_CANDIDATE),
        Unfused(SKIP, "unet.r.norm2", "no such shape", SKIP, "", "Add"),
        Unfused(SKIP, "unet.r.norm3", "no such shape", SKIP, "", "Add"),
    ]
    assert sentences(found, component="unet", most=3, all_of_them="--X=FILE") == [
        "BiasSplitGelu at b.0.ff.net.0 and 1 more: no Gelu: its result is not multiplied (Mul node_mul_3)",
        "MultiHeadAttention[packed-kv] at b.0.attn2: its key has a bias (Add node_add)",
        "GroupNorm at norm: no candidate node was found there",
        "and 2 more: --X=FILE",
    ]
    assert sentences(found[4:], component="vae", most=3, all_of_them="--X=FILE") == [
        "SkipGroupNorm at unet.r.norm2 and 1 more: no such shape (Add)",
        "each of them: --X=FILE",
    ]
    assert sentences(found[2:4], component="unet", most=3, all_of_them="--X=FILE") == [
        "MultiHeadAttention[packed-kv] at b.0.attn2: its key has a bias (Add node_add)",
        "GroupNorm at norm: no candidate node was found there",
    ]


def test_the_explanation_needs_no_heavy_library():
    heavy = "{'torch', 'onnx', 'onnx_ir', 'onnxruntime', 'numpy'}"
    program = f"import sys, pytest_sdperf.fusing.explain; print(sorted({heavy} & set(sys.modules)))"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
