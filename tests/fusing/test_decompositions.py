"""GroupNormalization and Attention of ONNX, expressed by the operators that exporters emitted before them."""

from __future__ import annotations

import by_hand
import numpy as np
import pytest
import rewriting
from by_hand import CLOSE, make

from pytest_sdperf.core.errors import BuildError
from pytest_sdperf.fusing.optimizations.fusions.attention import Attention
from pytest_sdperf.fusing.optimizations.fusions.group_norm import GroupNorm

HEADS = {
    "qs": "Reshape(x, heads)",
    "q": "Transpose <perm = [0, 2, 1, 3]> (qs)",
    "ks": "Reshape(c, heads)",
    "k": "Transpose <perm = [0, 2, 1, 3]> (ks)",
}
END = {"oh": "Transpose <perm = [0, 2, 1, 3]> (o)", "y": "Reshape(oh, whole)"}
WEIGHTS = {
    "heads": np.array([0, 0, 2, 8]), "whole": np.array([0, 0, 16]), "allowed": np.tril(np.ones((1, 1, 6, 6), bool)),
    "square": np.triu(np.full((6, 6), -np.inf, np.float32), 1), "some": np.eye(6, dtype=bool),
}  # fmt: skip
INPUTS = "float[N, 6, 16] x, float[N, 6, 16] c"


def attention(node, inputs=INPUTS, opset=23):
    return make({**HEADS, "o": node, **END}, inputs, "float[N, 6, 16] y", WEIGHTS, opset=opset)


# Node -> attributes of the fused one, or None where it is not fused.
NODES = {
    "plain": ("Attention(q, k, k)", {}),
    "scaled": ("Attention <scale = 0.5> (q, k, k)", {"scale": 0.5}),
    "causal": ("Attention <is_causal = 1> (q, k, k)", {"unidirectional": 1}),
    "causal by a mask": ("Attention(q, k, k, square)", {"unidirectional": 1}),
    "causal by booleans": ("Attention(q, k, k, allowed)", {"unidirectional": 1}),
    "causal twice": ("Attention <is_causal = 1> (q, k, k, allowed)", None),
    "its own place alone": ("Attention(q, k, k, some)", None),
    "nothing soft": ("Attention <softcap = 0.0, qk_matmul_output_mode = 0> (q, k, k)", {}),
}


@pytest.mark.parametrize("name", NODES)
def test_attention(name):
    node, attributes = NODES[name]
    model = attention(node)
    by_hand.fuse(model, Attention())
    fused = [each for each in model.graph if each.op_type == "MultiHeadAttention"]
    found = [{key: a.value for key, a in each.attributes.items() if key != "num_heads"} for each in fused]
    assert found == ([pytest.approx(attributes, rel=1e-6)] if attributes is not None else [])
    assert max(by_hand.errors(lambda: attention(node), model)) < CLOSE


@pytest.mark.parametrize("name", NODES)
def test_attention_that_is_not_fused(name):
    node, _ = NODES[name]
    model = attention(node)
    by_hand.fuse(model)
    assert rewriting.counts(model)["Softmax"] == 1
    assert model.opset_imports[""] == 20
    assert max(by_hand.errors(lambda: attention(node), model)) < CLOSE


REFUSED = {
    "softcap": (
        "Attention <softcap = 2.0, qk_matmul_output_mode = 1> (q, k, k)",
        "Attention o has softcap and qk_matmul_output_mode, which no kernel of CUDA computes.",
    ),
    "past": (
        "Attention(q, k, k, square, k, k)",
        "Attention o keeps keys and values of earlier calls, which is not supported.",
    ),
    "heads within": (
        "Attention <q_num_heads = 2, kv_num_heads = 2> (x, c, c)",
        f"Attention o has operands of shapes [{', '.join(['(None, 6, 16)'] * 3)}]; supported: (B, N, S, H), equal N.",
    ),
    "no scale": (
        "Attention <scale = 0.0> (q, k, k)",
        "Attention o has no positive scale, and heads of no fixed size.",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_attention_of_another_form_is_refused(name):
    node, message = REFUSED[name]
    with pytest.raises(BuildError) as caught:
        by_hand.fuse(attention(node))
    assert str(caught.value) == message


def norm(inputs="float[N, 8, H, W] x", outputs="float[N, 8, H, W] y", opset=21, **changed):
    lines = {"y": "GroupNormalization <num_groups = 4, epsilon = 0.001> (x, scale, shift)", **changed}
    return make(lines, inputs, outputs, {"scale": (8,), "shift": (8,), "per": (4,)}, opset=opset)


NORMS = {
    "image": (norm, 1),
    "image with an activation": (
        lambda: norm(
            y="GroupNormalization <num_groups = 4> (x, scale, shift)\n g = Sigmoid(y)\n z = Mul(y, g)",
            outputs="float[N, 8, H, W] z",
        ),
        1,
    ),
    "scale from an input": (
        lambda: norm("float[N, 8, H, W] x, float[8] s", y="GroupNormalization <num_groups = 4> (x, s, shift)"),
        0,
    ),
    "sequence": (lambda: norm("float[N, 8, S] x", "float[N, 8, S] y"), 0),
}


@pytest.mark.parametrize("fusions", [(), (GroupNorm(),)], ids=["plain", "fused"])
@pytest.mark.parametrize("name", NORMS)
def test_group_normalization(name, fusions):
    build, count = NORMS[name]
    model = build()
    by_hand.fuse(model, *fusions)
    counts = rewriting.counts(model)
    assert counts["com.microsoft::GroupNorm"] == (count if fusions else 0)
    assert counts["GroupNormalization"] == 0
    assert max(by_hand.errors(build, model)) < CLOSE


def test_group_normalization_that_scales_groups_is_left_alone():
    model = norm(opset=20, y="GroupNormalization <num_groups = 4> (x, per, per)")
    by_hand.fuse(model, GroupNorm())
    assert rewriting.counts(model) == {"GroupNormalization": 1}


def test_group_normalization_of_an_unknown_shape_is_refused():
    model = norm(
        "float[N, 8, H, W] x, int64[4] sizes",
        x2="Reshape(x, sizes)",
        y="GroupNormalization <num_groups = 4> (x2, scale, shift)",
    )
    model.graph.sort()
    with pytest.raises(BuildError) as caught:
        by_hand.fuse(model)
    assert str(caught.value) == "the shape of what GroupNormalization y normalises is not known."
