"""Opsets: what a fused graph declares, and what is refused there."""

from __future__ import annotations

import by_hand
import numpy as np
import onnx_ir as ir
import pytest
import rewriting
from by_hand import CLOSE, make

from pytest_sdperf.core.errors import BuildError
from pytest_sdperf.fusing.optimizations.fusions.layer_norm import LayerNormalization

X = "float[N, 8, 6, 6] x"


def halves(opset, split):
    lines = {"left, right": f"Split <axis = 1{split}> (x)", "y": "Mul(left, right)"}
    return make(lines, X, "float[N, 4, 6, 6] y", {}, opset=opset)


def mean(opset):
    if opset < 18:
        return make({"y": "ReduceMean <axes = [2, 3], keepdims = 0> (x)"}, X, "float[N, 8] y", {}, opset=opset)
    axes = {"axes": np.array([2, 3])}
    return make({"y": "ReduceMean <keepdims = 0> (x, axes)"}, X, "float[N, 8] y", axes, opset=opset)


def plain(opset):
    weights = {"w": (8, 8, 1, 1), "s": np.array([0, 8, -1]), "g": (36,)}
    lines = {"c": "Conv(x, w)", "r": "Reshape(c, s)", "y": "Transpose <perm = [0, 2, 1]> (r)"}
    return make(lines, X, "float[N, 36, 8] y", weights, opset=opset)


@pytest.mark.parametrize(
    ("given", "declared"), [(13, 18), (14, 18), (17, 18), (18, 18), (19, 19), (20, 20), (21, 20), (23, 20), (25, 20)]
)
def test_an_opset_that_has_kernels_is_declared(given, declared):
    model = plain(given)
    by_hand.fuse(model)
    assert model.opset_imports[""] == declared
    assert max(by_hand.errors(lambda: plain(18), model)) < CLOSE


@pytest.mark.parametrize("given", [13, 17, 18, 20, 23])
def test_a_mean_over_axes(given):
    model = mean(given)
    by_hand.fuse(model)
    assert max(by_hand.errors(lambda: mean(18), model)) < CLOSE


@pytest.mark.parametrize(("given", "split"), [(13, ""), (17, ""), (18, ", num_outputs = 2"), (23, ", num_outputs = 2")])
def test_a_split_into_equal_parts(given, split):
    model = halves(given, split)
    by_hand.fuse(model)
    assert max(by_hand.errors(lambda: halves(18, ", num_outputs = 2"), model)) < CLOSE


# Operator and opset -> attributes that came after opset 20, with their defaults, and the value that has them.
LATER = {
    ("QuantizeLinear", 21): ("block_size = 0, output_dtype = 0", "codes"),
    ("QuantizeLinear", 23): ("block_size = 0, output_dtype = 0, precision = 0", "codes"),
    ("DequantizeLinear", 23): ("block_size = 0, output_dtype = 0", "y"),
}


@pytest.mark.parametrize(("op", "opset"), LATER)
def test_an_attribute_that_says_what_is_so_without_it_is_left_out(op, opset):
    says, name = LATER[op, opset]
    lines = {"codes": "QuantizeLinear(x, step)", "y": "DequantizeLinear(codes, step)"}
    lines[name] = lines[name].replace("(", f" <{says}> (")
    model = make(lines, X, "float[N, 8, 6, 6] y", {"step": np.float32(0.1)}, opset=opset)
    by_hand.fuse(model)
    assert model.opset_imports[""] == 20
    (node,) = [node for node in model.graph if node.op_type == op]
    assert not node.attributes


MEANT = "and is fused for 18 to 20. Export it for one of these."


def test_norms_of_an_old_graph_become_one_node():
    def build(opset=14):
        axes = "<axes = [-1]> (" if opset < 18 else "("
        end = ")" if opset < 18 else ", last)"
        return by_hand.parts(opset=opset, mean=f"ReduceMean {axes}x{end}", v=f"ReduceMean {axes}p{end}")

    model = build()
    by_hand.fuse(model, LayerNormalization())
    assert rewriting.counts(model) == {"LayerNormalization": 1}
    assert model.opset_imports[""] == 18
    assert max(by_hand.errors(lambda: build(18), model)) < CLOSE


REFUSED = {
    "old": (
        lambda: make({"y": "Squeeze <axes = [1]> (x)"}, "float[N, 1] x", "float[N] y", {}, opset=12),
        "the graph declares opset 12; supported: 13 and later. Export it again.",
    ),
    "operator": (
        lambda: make({"y": "Swish(x)"}, X, "float[N, 8, 6, 6] y", {}, opset=24),
        f"operator Swish of node y does not exist in opset 20; the graph declares 24 {MEANT}",
    ),
    "operator that was withdrawn": (
        lambda: make(
            {"y": "GroupNormalization <num_groups = 2> (x, two, two)"},
            X,
            "float[N, 8, 6, 6] y",
            {"two": (2,)},
            opset=17,
        ),
        f"operator GroupNormalization of node y does not exist in opset 18; the graph declares 17 {MEANT}",
    ),
    "attribute": (
        lambda: make({"y": 'Cast <to = 10, round_mode = "down"> (x)'}, X, "float16[N, 8, 6, 6] y", {}, opset=24),
        f"operator Cast of node y has no round_mode in opset 20; the graph declares 24 {MEANT}",
    ),
    "inputs": (
        lambda: make(
            {"y": "Gelu(x, x)"},
            X,
            "float[N, 8, 6, 6] y",
            {},
            opset=23,
        ),
        f"operator Gelu of node y takes no more than 1 of its 2 inputs in opset 20; the graph declares 23 {MEANT}",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_kernel_is_refused(name):
    build, message = REFUSED[name]
    with pytest.raises(BuildError) as caught:
        by_hand.fuse(build())
    assert str(caught.value) == message


def test_operators_within_a_graph_are_looked_at():
    text = """<ir_version: 10, opset_import: ["": 24]> g (bool c, float[N, 8] x) => (float[N, 8] y) {
        y = If(c) <then_branch = t () => (float[N, 8] a) { a = Swish(x) },
                   else_branch = e () => (float[N, 8] b) { b = Identity(x) }>
    }"""
    model = ir.from_onnx_text(text)
    with pytest.raises(BuildError, match="operator Swish of node"):
        by_hand.fuse(model)


def test_domains_that_are_used_are_declared():
    model = by_hand.convolution()
    del model.opset_imports["com.microsoft"]
    by_hand.fuse(model, *rewriting.OPTIMIZATIONS["nhwc-conv"].fusions())
    assert model.opset_imports == {"": 18, "com.microsoft": 1}
