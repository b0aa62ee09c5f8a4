"""Norms of sequences and activations that are refused."""

from __future__ import annotations

import numpy as np
from by_hand import GEGLU, geglu, layer_norm, make, parts

from pytest_sdperf.fusing.optimizations.fusions.bias_add import BiasAdd
from pytest_sdperf.fusing.optimizations.fusions.bias_gelu import BiasGelu
from pytest_sdperf.fusing.optimizations.fusions.bias_split_gelu import BiasSplitGelu
from pytest_sdperf.fusing.optimizations.fusions.gelu import Gelu
from pytest_sdperf.fusing.optimizations.fusions.layer_norm import LayerNormalization
from pytest_sdperf.fusing.optimizations.fusions.quick_gelu import QuickGelu
from pytest_sdperf.fusing.optimizations.fusions.skip_layer_norm import SkipLayerNormalization


def without(lines, *names):
    return {name: line for name, line in lines.items() if name not in names}


# A fusion and those before it, the graph, and every refusal: node, operator, reason. A node is named after what it
# computes (see `by_hand`).
CASES = {
    "quotient of something else": (
        [LayerNormalization()],
        lambda: parts(n="Div(x, root)"),
        [("n", "Div", "what it divides is no difference from the mean of the last axis")],
    ),
    "difference from the mean of another axis": (
        [LayerNormalization()],
        lambda: parts(weights={"last": np.array([1])}),
        [("n", "Div", "what it divides is no difference from the mean of the last axis")],
    ),
    "mean of cubes": (
        [LayerNormalization()],
        lambda: parts(weights={"two": np.float32(3)}),
        [("v", "ReduceMean", "its divisor is not computed from the variance of what it divides")],
    ),
    "mean of squares over another axis": (
        [LayerNormalization()],
        lambda: parts(v="ReduceMean(p, first)"),
        [("v", "ReduceMean", "its divisor is not computed from the variance of what it divides")],
    ),
    "mean of the squares of something else": (
        [LayerNormalization()],
        lambda: parts(p="Mul(d, x)"),
        [("v", "ReduceMean", "its divisor is not computed from the variance of what it divides")],
    ),
    "norm in parts without scale": (
        [LayerNormalization()],
        lambda: parts(outputs="float[N, S, 16] n"),
        [("n", "Div", "its result is not scaled by a weight (C,)")],
    ),
    "norm in parts with an offset from an input": (
        [LayerNormalization()],
        lambda: parts("float[N, S, 16] x, float[16] z", y="Add(s, z)"),
        [("y", "Add", "its result is not shifted by a weight (C,)")],
    ),
    "two norms of a sum": (
        [SkipLayerNormalization()],
        lambda: layer_norm(
            n="LayerNormalization(t, gamma, beta)\n m = LayerNormalization(t, beta, gamma)", y="Add(n, m)"
        ),
        [("m", "LayerNormalization", "another norm has taken in the sum that it normalises")],
    ),
    "norm of an image": (
        [SkipLayerNormalization()],
        lambda: make(
            {"t": "Add(x, z)", "y": "LayerNormalization(t, g, g)"},
            "float[N, 4, H, 8] x, float[N, 4, H, 8] z",
            "float[N, 4, H, 8] y",
            {"g": (8,)},
        ),
        [("y", "LayerNormalization", "it normalises no sequence (B, S, C) over its last axis")],
    ),
    "norm over two axes": (
        [SkipLayerNormalization()],
        lambda: make(
            {"t": "Add(x, z)", "y": "LayerNormalization <axis = 1> (t, g, g)"},
            "float[N, 6, 8] x, float[N, 6, 8] z",
            "float[N, 6, 8] y",
            {"g": (6, 8)},
        ),
        [("y", "LayerNormalization", "it normalises no sequence (B, S, C) over its last axis")],
    ),
    "norm with a scale from an input": (
        [SkipLayerNormalization()],
        lambda: layer_norm("float[N, S, 16] x, float[16] g", n="LayerNormalization(t, g, beta)"),
        [("n", "LayerNormalization", "its scale and offset are no weights (C,)")],
    ),
    "norm with one scale for all": (
        [SkipLayerNormalization()],
        lambda: layer_norm(weights={"gamma": (1,)}),
        [("n", "LayerNormalization", "its scale and offset are no weights (C,)")],
    ),
    "norm whose mean is read": (
        [SkipLayerNormalization()],
        lambda: layer_norm(
            outputs="float[N, S, 16] y, float[N, S, 1] mean",
            lines={
                "a": "MatMul(x, w)",
                "t": "Add(a, x)",
                "n, mean": "LayerNormalization(t, gamma, beta)",
                "y": "Add(n, t)",
            },
        ),
        [("n", "LayerNormalization", "its mean or deviation is read")],
    ),
    "sum with one sample": (
        [SkipLayerNormalization()],
        lambda: layer_norm("float[N, S, 16] x, float[1, S, 16] z", t="Add(ab, z)"),
        [("t", "Add", "the two parts of the sum that it normalises differ in shape")],
    ),
    "Gelu by tanh": (
        [Gelu()],
        lambda: make({"y": 'Gelu <approximate = "tanh"> (x)'}, "float[N, 8] x", "float[N, 8] y", {}, opset=20),
        [("y", "Gelu", "it is approximated by tanh")],
    ),
    "error function of something": (
        [Gelu()],
        lambda: make({"y": "Erf(x)"}, "float[N, 8] x", "float[N, 8] y", {}),
        [("y", "Erf", "its argument is not divided by the square root of 2")],
    ),
    "error function of another multiple": (
        [Gelu()],
        lambda: geglu(weights={"root": np.float32(1.5)}),
        [("scaled", "Div", "its argument is not divided by the square root of 2")],
    ),
    "error function of a quotient turned round": (
        [Gelu()],
        lambda: geglu(scaled="Div(root, right)"),
        [("scaled", "Div", "its argument is not divided by the square root of 2")],
    ),
    "error function less one": (
        [Gelu()],
        lambda: geglu(weights={"one": np.float32(-1)}),
        [("more", "Add", "1 is not added to its error function")],
    ),
    "error function read by others": (
        [Gelu()],
        lambda: geglu(outputs="float[N, S, 16] y, float[N, S, 32] seen", more="Add(erf, one)\n seen = Relu(erf)"),
        [("erf", "Erf", "1 is not added to its error function")],
    ),
    "Gelu times a third": (
        [Gelu()],
        lambda: geglu(weights={"point5": np.float32(1 / 3)}),
        [("gelu", "Mul", "the product with its argument and 0.5 is not complete")],
    ),
    "error function times something else": (
        [Gelu()],
        lambda: geglu(half="Mul(left, more)"),
        [("more", "Add", "the product with its argument and 0.5 is not complete")],
    ),
    "Gelu by constants of a shape": (
        [Gelu()],
        lambda: make(
            {"s": "Div(x, root)", "e": "Erf(s)", "m": "Add(e, one)", "h": "Mul(x, m)", "y": "Mul(h, half)"},
            "float[1, 8] x",
            "float[2, 8] y",
            {"root": np.full((2, 1), 2**0.5, np.float32), "one": np.float32(1), "half": np.float32(0.5)},
        ),
        [("y", "Mul", "its constants change the shape of its argument")],
    ),
    "QuickGelu of something else": (
        [QuickGelu()],
        lambda: make(
            {"s": "Mul(x, slope)", "g": "Sigmoid(s)", "y": "Mul(s, g)"},
            "float[N, 8] x",
            "float[N, 8] y",
            {"slope": np.float32(1.702)},
        ),
        [("y", "Mul", "it is not multiplied with its argument alone")],
    ),
    "QuickGelu whose gate is read": (
        [QuickGelu()],
        lambda: make(
            {"s": "Mul(x, slope)", "g": "Sigmoid(s)", "y": "Mul(x, g)"},
            "float[N, 8] x",
            "float[N, 8] y, float[N, 8] g",
            {"slope": np.float32(1.702)},
        ),
        [("g", "Sigmoid", "it is not multiplied with its argument alone")],
    ),
    "QuickGelu by a constant of a shape": (
        [QuickGelu()],
        lambda: make(
            {"s": "Mul(x, slope)", "g": "Sigmoid(s)", "y": "Mul(x, g)"},
            "float[1, 8] x",
            "float[2, 8] y",
            {"slope": np.full((2, 1), 1.702, np.float32)},
        ),
        [("y", "Mul", "its constant changes the shape of its argument")],
    ),
    "Gelu of a residual sum": (
        [Gelu(), BiasGelu()],
        lambda: make({"t": "Add(x, z)", "y": "Gelu(t)"}, "float[N, 8] x, float[N, 8] z", "float[N, 8] y", {}, opset=20),
        [("sdperf_Gelu_0", "Gelu", "its argument is no sum of an activation and a bias that nobody else reads")],
    ),
    "Gelu of a sum that is read": (
        [Gelu(), BiasGelu()],
        lambda: make(
            {"t": "Add(x, b)", "g": "Gelu(t)", "y": "Add(g, t)"},
            "float[N, 8] x",
            "float[N, 8] y",
            {"b": (8,)},
            opset=20,
        ),
        [("sdperf_Gelu_0", "Gelu", "its argument is no sum of an activation and a bias that nobody else reads")],
    ),
    "half that is read by others": (
        [BiasSplitGelu()],
        lambda: geglu(outputs="float[N, S, 16] y, float[N, S, 32] gelu"),
        [("erf", "Erf", "its result is not multiplied with the other half alone")],
    ),
    "half times something else": (
        [BiasSplitGelu()],
        lambda: geglu(gated="Mul(gelu, gelu)"),
        [("gated", "Mul", "its result is not multiplied with the other half alone")],
    ),
    "Gelu of the first half": (
        [BiasSplitGelu()],
        lambda: geglu(
            **{
                "left, right": "Split <axis = 2, num_outputs = 2> (ab)",
                "scaled": "Div(left, root)",
                "half": "Mul(left, more)",
                "gated": "Mul(right, gelu)",
            }
        ),
        [("gated", "Mul", "the Gelu is applied to the first half, the operator applies it to the second")],
    ),
    "GEGLU whose argument is read": (
        [BiasSplitGelu()],
        lambda: geglu(outputs="float[N, S, 16] y, float[N, S, 64] seen", ab="Add(a, b)\n seen = Relu(ab)"),
        [("seen", "Relu", "what is split is read by others too")],
    ),
    "GEGLU whose argument is an output": (
        [BiasSplitGelu()],
        lambda: geglu(outputs="float[N, S, 16] y, float[N, S, 64] ab"),
        [("gated", "Mul", "what is split is read by others too")],
    ),
    "GEGLU without bias": (
        [BiasSplitGelu()],
        lambda: geglu(ab="Identity(a)"),
        [("a", "MatMul", "what is split is no sum of an activation and a bias")],
    ),
    "GEGLU of an input": (
        [BiasSplitGelu()],
        lambda: make(
            without(GEGLU, "a", "ab", "d", "db", "y"),
            "float[N, S, 64] ab",
            "float[N, S, 32] gated",
            {"root": np.float32(2**0.5), "one": np.float32(1), "point5": np.float32(0.5)},
        ),
        [("erf", "Erf", "what is split is no sum of an activation and a bias")],
    ),
    "GEGLU of rows": (
        [BiasSplitGelu()],
        lambda: make(
            {**without(GEGLU, "d", "db", "y"), "left, right": "Split <axis = 1, num_outputs = 2> (ab)"},
            "float[N, 16] x",
            "float[N, 32] gated",
            {"w": (16, 64), "b": (64,), "root": np.float32(2**0.5), "one": np.float32(1), "point5": np.float32(0.5)},
        ),
        [("ab", "Add", "what is split is no sequence (B, S, 2 x C)")],
    ),
    "residual sum with one sample": (
        [BiasSplitGelu(), BiasAdd()],
        lambda: geglu("float[N, S, 16] x, float[1, S, 16] z", y="Add(db, z)"),
        [("y", "Add", "it adds no sequences (B, S, C) of the same shape")],
    ),
}
