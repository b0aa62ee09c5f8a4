"""Where the transposes go that channels-last operators need."""

from __future__ import annotations

import by_hand
import numpy as np
import onnx_ir as ir
import pytest
import rewriting
from by_hand import CLOSE, make

from pytest_sdperf.fusing.fusion_graph import FusionGraph
from pytest_sdperf.fusing.layout import NCHW_TO_NHWC, NHWC_TO_NCHW, is_transpose, nhwc_of, to_nchw, to_nhwc
from pytest_sdperf.fusing.optimizations.fusions.nhwc_conv import NhwcConv

CONV = "Conv <pads = [1, 1, 1, 1]>"
WEIGHTS = {
    "w": (4, 4, 3, 3), "b": (4,), "w2": (4, 4, 3, 3), "b2": (4,), "wide": (4, 8, 3, 3), "channels": (4, 1, 1),
    "images": (1, 4, 1, 1), "number": np.full((1, 1, 1, 1), 0.5, np.float32), "half": np.float32(0.5), "row": (8,),
    "twice": np.array([1, 1, 2, 2], np.float32), "none": np.zeros(0, np.float32), "low": np.float32(-0.5),
    "high": np.float32(0.7), "pads": np.array([0, 0, 1, 2, 0, 0, 3, 0]), "two": np.array([1, 1, 2, 2]),
    "flat": np.array([0, 4, -1]), "columns": np.array([0, 4, 8, 8]), "corners": (8,),
}  # fmt: skip
IMAGE = "float[N, 4, H, W]"
FIXED = "float[N, 4, 8, 8]"
NEAREST = 'Resize <mode = "nearest", nearest_mode = "floor", coordinate_transformation_mode = "asymmetric">'
LINEAR = 'Resize <mode = "linear", coordinate_transformation_mode = "half_pixel">'


def between(*lines, inputs=f"{IMAGE} x", outputs=f"{IMAGE} y", last="d"):
    """What is written here between two convolutions of four channels; `d` is the last before the second."""
    pairs = dict(line.split(" = ", 1) for line in lines)
    return make({"c": f"{CONV} (x, w, b)", **pairs, "y": f"{CONV} ({last}, w2, b2)"}, inputs, outputs, WEIGHTS)


# Name -> graph, transposes that are left. One at the input and one at the output are always needed.
GRAPHS = {
    "nothing": (lambda: between(last="c"), 2),
    "activation": (lambda: between("g = Sigmoid(c)", "d = Mul(c, g)"), 2),
    "channels": (lambda: between("d = Mul(c, channels)"), 2),
    "channels of images": (lambda: between("d = Add(images, c)"), 2),
    "number": (lambda: between("d = Div(c, half)"), 2),
    "number of rank 4": (lambda: between("d = Sub(c, number)"), 2),
    "bounds": (lambda: between("d = Clip(c, low, high)"), 2),
    "vector of an input": (lambda: between("d = Add(c, v)", inputs=f"{IMAGE} x, float[N, 4, 1, 1] v"), 3),
    "rows": (lambda: between("d = Add(c, row)", inputs=f"{FIXED} x", outputs=f"{FIXED} y"), 4),
    "another image": (lambda: between("d = Add(c, z)", inputs=f"{IMAGE} x, {IMAGE} z"), 4),
    "square of an input": (
        lambda: between("d = Add(c, z)", inputs=f"{FIXED} x, float[8, 8] z", outputs=f"{FIXED} y"),
        4,
    ),
    "image of its own": (lambda: between("d = Add(c, c)"), 2),
    "concatenation": (
        lambda: make(
            {"c": f"{CONV} (x, w, b)", "e": "Relu(c)", "d": "Concat <axis = 1> (c, e)", "y": f"{CONV} (d, wide)"},
            f"{IMAGE} x",
            f"{IMAGE} y",
            WEIGHTS,
        ),
        2,
    ),
    "concatenation from behind": (
        lambda: make(
            {"c": f"{CONV} (x, w, b)", "e": "Relu(c)", "d": "Concat <axis = -3> (c, e)", "y": f"{CONV} (d, wide)"},
            f"{IMAGE} x",
            f"{IMAGE} y",
            WEIGHTS,
        ),
        2,
    ),
    "concatenation of rows": (
        lambda: between("e = Relu(c)", "d = Concat <axis = 2> (e, c)", outputs="float[N, 4, P, W] y"),
        2,
    ),
    "concatenation of samples": (
        lambda: between("e = Relu(c)", "d = Concat <axis = 0> (e, c)", outputs="float[M, 4, H, W] y"),
        2,
    ),
    "concatenation of both layouts": (
        lambda: make(
            {"c": f"{CONV} (x, w, b)", "d": "Concat <axis = 1> (c, z)", "y": f"{CONV} (d, wide)"},
            f"{IMAGE} x, {IMAGE} z",
            f"{IMAGE} y",
            WEIGHTS,
        ),
        4,
    ),
    "enlargement by factors": (
        lambda: between(f"d = {NEAREST} (c, , twice)", outputs="float[N, 4, P, Q] y"),
        2,
    ),
    "enlargement by factors beside corners": (
        lambda: between(f"d = {NEAREST} (c, corners, twice)", outputs="float[N, 4, P, Q] y"),
        4,
    ),
    "enlargement to sizes": (
        lambda: between(
            "s = Shape(c)", "s2 = Mul(s, two)", f"d = {NEAREST} (c, none, none, s2)", outputs="float[N, 4, P, Q] y"
        ),
        2,
    ),
    "enlargement to the size of an input": (
        lambda: between(
            "s = Shape(z)",
            f"d = {NEAREST} (c, , , s)",
            inputs=f"{IMAGE} x, float[N, 4, P, Q] z",
            outputs="float[N, 4, P, Q] y",
        ),
        2,
    ),
    "enlargement by interpolation": (
        lambda: between(f"d = {LINEAR} (c, , twice)", outputs="float[N, 4, P, Q] y"),
        4,
    ),
    "padding": (lambda: between("d = Pad(c, pads)", outputs="float[N, 4, P, Q] y"), 2),
    "padding by a number": (lambda: between("d = Pad(c, pads, half)", outputs="float[N, 4, P, Q] y"), 2),
    "padding by reflection": (
        lambda: between('d = Pad <mode = "reflect"> (c, pads)', outputs="float[N, 4, P, Q] y"),
        2,
    ),
    "shape": (
        lambda: between("s = Shape(c)", "r = Relu(c)", "d = Reshape(r, s)"),
        4,
    ),
    "sequence of places and back": (
        lambda: between(
            "f = Reshape(c, flat)",
            "p = Transpose <perm = [0, 2, 1]> (f)",
            "r = Relu(p)",
            "q = Transpose <perm = [0, 2, 1]> (r)",
            "d = Reshape(q, columns)",
            inputs=f"{FIXED} x",
            outputs=f"{FIXED} y",
        ),
        2,
    ),
    "sequence of places and back, open": (
        lambda: between(
            "s = Shape(c)",
            "f = Reshape(c, flat)",
            "p = Transpose <perm = [0, 2, 1]> (f)",
            "r = Relu(p)",
            "q = Transpose <perm = [0, 2, 1]> (r)",
            "d = Reshape(q, s)",
        ),
        2,
    ),
    "image of channels last given": (
        lambda: make(
            {
                "t": "Transpose <perm = [0, 3, 1, 2]> (x)",
                "c": f"{CONV} (t, w, b)",
                "y": "Transpose <perm = [0, 2, 3, 1]> (c)",
            },
            "float[N, H, W, 4] x",
            "float[N, H, W, 4] y",
            WEIGHTS,
        ),
        0,
    ),
    "both layouts as outputs": (
        lambda: make(
            {"c": f"{CONV} (x, w, b)", "y": "Transpose <perm = [0, 2, 3, 1]> (c)"},
            f"{IMAGE} x",
            f"float[N, H, W, 4] y, {IMAGE} c",
            WEIGHTS,
        ),
        2,
    ),
    "input that is an output": (
        lambda: make(
            {
                "t": "Transpose <perm = [0, 3, 1, 2]> (x)",
                "y": "Transpose <perm = [0, 2, 3, 1]> (t)",
                "z": f"{CONV} (t, w, b)",
            },
            "float[N, H, W, 4] x",
            f"float[N, H, W, 4] y, {IMAGE} z",
            WEIGHTS,
        ),
        1,
    ),
    "the same output twice": (
        lambda: make(
            {
                "c": f"{CONV} (x, w, b)",
                "y": "Transpose <perm = [0, 2, 3, 1]> (c)",
                "z": "Transpose <perm = [0, 2, 3, 1]> (c)",
            },
            f"{IMAGE} x",
            "float[N, H, W, 4] y, float[N, H, W, 4] z",
            WEIGHTS,
        ),
        1,
    ),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_transposes_move_until_they_meet(name):
    build, transposes = GRAPHS[name]
    model = build()
    by_hand.fuse(model, NhwcConv())
    assert rewriting.counts(model)["Transpose"] == transposes
    choices = ({"N": 2, "H": 6, "W": 4, "P": 12, "Q": 8}, {"N": 1, "H": 4, "W": 6, "P": 8, "Q": 12})
    assert max(by_hand.errors(build, model, sizes=choices)) < CLOSE


@pytest.mark.parametrize("name", ["image of channels last given", "input that is an output", "the same output twice"])
def test_names_of_inputs_and_outputs_stay(name):
    build, _ = GRAPHS[name]
    model, plain = build(), build()
    by_hand.fuse(model, NhwcConv())
    for side in ("inputs", "outputs"):
        now, before = getattr(model.graph, side), getattr(plain.graph, side)
        assert [value.name for value in now] == [value.name for value in before]


def test_a_transpose_is_used_again():
    model = make({"y": "Relu(x)"}, f"{IMAGE} x", f"{IMAGE} y", {})
    graph = FusionGraph(model)
    (node,) = model.graph
    x = model.graph.inputs[0]
    last = to_nhwc(x, graph, before=node)
    assert to_nhwc(x, graph, before=node) is last
    assert to_nchw(last, graph, before=node) is x
    assert nhwc_of(last, graph) is x
    assert nhwc_of(x, graph) is None
    assert len(graph.nodes("Transpose")) == 1


def test_transposes_are_told_by_their_order():
    node = ir.node("Transpose", [ir.val("x")], {"perm": [0, 2, 3, 1]})
    assert is_transpose(node, NCHW_TO_NHWC)
    assert not is_transpose(node, NHWC_TO_NCHW)
    assert not is_transpose(ir.node("Transpose", [ir.val("x")]), NCHW_TO_NHWC)
    assert np.array_equal(np.array(NCHW_TO_NHWC)[list(NHWC_TO_NCHW)], range(4))
