"""Norms of sequences and activations: fused where that is right, and right where they are not fused."""

from __future__ import annotations

import by_hand
import numpy as np
import onnx_ir as ir
import pytest
import rewriting
from by_hand import CLOSE, geglu, layer_norm, make, parts

from pytest_sdperf.fusing.optimizations.fusions.bias_add import BiasAdd
from pytest_sdperf.fusing.optimizations.fusions.bias_gelu import BiasGelu
from pytest_sdperf.fusing.optimizations.fusions.bias_split_gelu import BiasSplitGelu
from pytest_sdperf.fusing.optimizations.fusions.gelu import Gelu
from pytest_sdperf.fusing.optimizations.fusions.layer_norm import LayerNormalization
from pytest_sdperf.fusing.optimizations.fusions.quick_gelu import QuickGelu
from pytest_sdperf.fusing.optimizations.fusions.skip_layer_norm import SkipLayerNormalization


def sliced(start="middle", end="end"):
    """A GEGLU whose halves are cut out one by one."""
    lines = {name: line for name, line in by_hand.GEGLU.items() if name != "left, right"}
    lines["ab"] = f"Add(a, b)\n left = Slice(ab, start, middle, last)\n right = Slice(ab, {start}, {end}, last)"
    return geglu(lines=lines)


def gelu(*lines, inputs="float[N, S, 16] x", outputs="float[N, S, 16] y", opset=18):
    weights = {
        "root": np.float32(2**0.5), "unroot": np.float32(2**-0.5), "one": np.float32(1), "point5": np.float32(0.5),
        "slope": np.float32(1.702), "b": (16,), "wide": (1, 1, 16),
    }  # fmt: skip
    return make(dict(line.split(" = ", 1) for line in lines), inputs, outputs, weights, opset=opset)


ERF = ("s = Div(x, root)", "e = Erf(s)", "m = Add(e, one)")
FUSED = {
    # ---------------------------------------------------------------------------------------------------- norms
    "norm of a sum": (layer_norm, [SkipLayerNormalization()], {"SkipLayerNormalization": 1}),
    "bias on the right": (
        lambda: layer_norm(t="Add(x, ab)"),
        [SkipLayerNormalization()],
        {"SkipLayerNormalization": 1},
    ),
    "bias first": (
        lambda: layer_norm(ab="Add(b, a)"),
        [SkipLayerNormalization()],
        {"SkipLayerNormalization": 1},
    ),
    "bias of rank 3": (
        lambda: layer_norm(weights={"b": (1, 1, 16)}),
        [SkipLayerNormalization()],
        {"SkipLayerNormalization": 1, "Add": 2},
    ),
    "biased value read by others": (
        lambda: layer_norm(y="Add(n, ab)"),
        [SkipLayerNormalization()],
        {"SkipLayerNormalization": 1, "Add": 2},
    ),
    "sum of a value with itself": (
        lambda: layer_norm(t="Add(ab, ab)"),
        [SkipLayerNormalization()],
        {"SkipLayerNormalization": 1, "Add": 2},
    ),
    "sum read by nobody else": (
        lambda: layer_norm(y="Relu(n)"),
        [SkipLayerNormalization()],
        {"SkipLayerNormalization": 1},
    ),
    "sum that is an output": (
        lambda: layer_norm(outputs="float[N, S, 16] y, float[N, S, 16] t"),
        [SkipLayerNormalization()],
        {"SkipLayerNormalization": 1, "Add": 1},
    ),
    "norm that is an output": (
        lambda: layer_norm(outputs="float[N, S, 16] y, float[N, S, 16] n"),
        [SkipLayerNormalization()],
        {"SkipLayerNormalization": 1, "Add": 1},
    ),
    "norm without offset": (
        lambda: layer_norm(n="LayerNormalization <epsilon = 0.001> (t, gamma)"),
        [SkipLayerNormalization()],
        {"SkipLayerNormalization": 1},
    ),
    "two norms of a sum": (
        lambda: layer_norm(
            n="LayerNormalization(t, gamma, beta)\n m = LayerNormalization(t, beta, gamma)", y="Add(n, m)"
        ),
        [SkipLayerNormalization()],
        {"SkipLayerNormalization": 1, "LayerNormalization": 1},
    ),
    "norm of a product": (
        lambda: layer_norm(t="Mul(ab, x)"),
        [SkipLayerNormalization()],
        {"SkipLayerNormalization": 0, "LayerNormalization": 1},
    ),
    "norm of a biased value": (
        lambda: layer_norm(n="LayerNormalization(ab, gamma, beta)", t="Identity(x)"),
        [SkipLayerNormalization()],
        {"SkipLayerNormalization": 0, "LayerNormalization": 1},
    ),
    "norm in parts": (parts, [LayerNormalization()], {"LayerNormalization": 1, "Sqrt": 0, "ReduceMean": 0}),
    "norm in parts, by the square of a difference": (
        lambda: parts(p="Mul(d, d)"),
        [LayerNormalization()],
        {"LayerNormalization": 1, "Sub": 0},
    ),
    "norm in parts, of two differences": (
        lambda: parts(d="Sub(x, mean)\n d2 = Sub(x, mean)", n="Div(d2, root)"),
        [LayerNormalization()],
        {"LayerNormalization": 1, "Sub": 0},
    ),
    "norm in parts, of a sum": (
        lambda: parts(mean="Relu(x)\n t = Add(x, mean)\n m = ReduceMean(t, last)", d="Sub(t, m)"),
        [LayerNormalization(), SkipLayerNormalization()],
        {"LayerNormalization": 0, "SkipLayerNormalization": 1},
    ),
    "norm in parts, whose difference is read": (
        lambda: parts(outputs="float[N, S, 16] y, float[N, S, 16] d"),
        [LayerNormalization()],
        {"LayerNormalization": 1, "Sub": 1},
    ),
    # ------------------------------------------------------------------------------------------------- activations
    "x(1 + erf) 0.5": (lambda: gelu(*ERF, "h = Mul(x, m)", "y = Mul(h, point5)"), [Gelu()], {"Gelu": 1}),
    "0.5 (1 + erf) x": (lambda: gelu(*ERF, "h = Mul(point5, m)", "y = Mul(h, x)"), [Gelu()], {"Gelu": 1}),
    "0.5 x (1 + erf)": (
        lambda: gelu("h = Mul(x, point5)", *ERF, "y = Mul(h, m)"),
        [Gelu()],
        {"Gelu": 1},
    ),
    "erf(root x)": (
        lambda: gelu("s = Mul(unroot, x)", *ERF[1:], "h = Mul(x, m)", "y = Mul(h, point5)"),
        [Gelu()],
        {"Gelu": 1},
    ),
    "half of x read by others": (
        lambda: gelu("h = Mul(x, point5)", *ERF, "g = Mul(h, m)", "y = Add(g, h)"),
        [Gelu()],
        {"Gelu": 1, "Mul": 1},
    ),
    "Gelu of ONNX": (lambda: gelu("y = Gelu(x)", opset=20), [Gelu()], {"Gelu": 1}),
    "erf that is no Gelu": (lambda: gelu("y = Erf(x)"), [Gelu()], {"Gelu": 0, "Erf": 1}),
    "QuickGelu": (
        lambda: gelu("s = Mul(slope, x)", "g = Sigmoid(s)", "y = Mul(g, x)"),
        [QuickGelu()],
        {"QuickGelu": 1},
    ),
    "SiLU": (lambda: gelu("g = Sigmoid(x)", "y = Mul(g, x)"), [QuickGelu()], {"QuickGelu": 0, "Sigmoid": 1}),
    "Gelu of a biased value": (
        lambda: gelu("xb = Add(x, b)", "y = Gelu(xb)", opset=20),
        [Gelu(), BiasGelu()],
        {"BiasGelu": 1, "Gelu": 0},
    ),
    "Gelu of a value with a wide bias": (
        lambda: gelu("xb = Add(x, wide)", "y = Gelu(xb)", opset=20),
        [Gelu(), BiasGelu()],
        {"BiasGelu": 0, "Gelu": 1},
    ),
    # ------------------------------------------------------------------------------------------------------ GEGLU
    "GEGLU by Split": (geglu, [BiasSplitGelu(), BiasAdd()], {"BiasSplitGelu": 1, "BiasAdd": 1, "MatMul": 2}),
    "GEGLU by Slice": (sliced, [BiasSplitGelu(), BiasAdd()], {"BiasSplitGelu": 1, "BiasAdd": 1}),
    "GEGLU of a fused Gelu": (geglu, [Gelu(), BiasSplitGelu()], {"BiasSplitGelu": 1, "Gelu": 0}),
    "GEGLU of one half twice": (
        lambda: sliced("start", "middle"),
        [BiasSplitGelu(), BiasAdd()],
        {"BiasSplitGelu": 0, "BiasAdd": 1},
    ),
    "error function of the multiple on the left": (
        lambda: geglu(scaled="Mul(unroot, right)", weights={"unroot": np.float32(2**-0.5)}),
        [BiasSplitGelu(), BiasAdd()],
        {"BiasSplitGelu": 1, "BiasAdd": 1},
    ),
    "product turned round": (
        lambda: geglu(gated="Mul(gelu, left)", y="Add(x, db)", db="Add(b2, d)"),
        [BiasSplitGelu(), BiasAdd()],
        {"BiasSplitGelu": 1, "BiasAdd": 1},
    ),
    "result of the feed-forward read by others": (
        lambda: geglu(outputs="float[N, S, 16] y, float[N, S, 16] db"),
        [BiasSplitGelu(), BiasAdd()],
        {"BiasSplitGelu": 1, "BiasAdd": 0},
    ),
    "residual sum that is read twice": (
        lambda: geglu(outputs="float[N, S, 16] z", y="Add(db, x)\n z = Mul(y, y)"),
        [BiasAdd()],
        {"BiasAdd": 1},
    ),
    "sum with a weight": (
        lambda: geglu(y="Add(db, w3)", weights={"w3": (16,)}),
        [BiasAdd()],
        {"BiasAdd": 0},
    ),
}


@pytest.mark.parametrize("name", FUSED)
def test_layers_are_fused(name):
    build, fusions, expected = FUSED[name]
    model = build()
    by_hand.fuse(model, *fusions)
    counts = rewriting.counts(model)
    found = {op: counts[f"com.microsoft::{op}"] or (0 if op == "Gelu" else counts[op]) for op in expected}
    assert found == expected
    assert max(by_hand.errors(build, model)) < CLOSE


def test_outputs_keep_their_names():
    model = FUSED["sum that is an output"][0]()
    by_hand.fuse(model, SkipLayerNormalization())
    (norm,) = [node for node in model.graph if node.domain]
    assert [value.name for value in model.graph.outputs] == ["y", "t"]
    assert norm.outputs[3] is model.graph.outputs[1]
    assert [value.name for value in norm.outputs[1:3]] == ["", ""]


def test_constants_of_float16_are_the_same_numbers():
    model = FUSED["0.5 (1 + erf) x"][0]()
    for value in model.graph.initializers.values():
        value.const_value = ir.tensor(value.const_value.numpy().astype(np.float16), name=value.name)
        value.dtype = ir.DataType.FLOAT16
    model.graph.inputs[0].dtype = model.graph.outputs[0].dtype = ir.DataType.FLOAT16
    by_hand.fuse(model, Gelu())
    assert rewriting.counts(model) == {"com.microsoft::Gelu": 1}
