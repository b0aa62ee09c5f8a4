"""What is made alike before anything is fused, and that nothing is left behind."""

from __future__ import annotations

import by_hand
import numpy as np
import onnx_ir as ir
import pytest
import rewriting
from by_hand import CLOSE, make

X = "float[N, 4, 12] x"
Y = "float[N, 4, 12] y"
HELD = {
    "one": np.float32(1), "ones": np.ones((1, 1, 12), np.float32), "many": np.ones((3, 1, 1), np.float32),
    "half": np.float32(0.5), "w": (12, 12), "big": (12, 48), "shape": np.array([4, 12, 12]), "axis": np.array([0]),
}  # fmt: skip

# Name -> graph, the nodes that are left.
GRAPHS = {
    "identities": (
        lambda: make({"a": "Identity(x)", "b": "Identity(a)", "c": "Relu(b)", "y": "Identity(c)"}, X, Y, HELD),
        {"Relu": 1, "Identity": 1},
    ),
    "an input that is passed on": (lambda: make({"y": "Identity(x)"}, X, Y, HELD), {"Identity": 1}),
    "product with one": (lambda: make({"a": "Mul(x, one)", "y": "Relu(a)"}, X, Y, HELD), {"Relu": 1}),
    "one times something": (lambda: make({"a": "Mul(one, x)", "y": "Relu(a)"}, X, Y, HELD), {"Relu": 1}),
    "weights that are 1": (lambda: make({"a": "Mul(ones, x)", "y": "Relu(a)"}, X, Y, HELD), {"Relu": 1, "Mul": 1}),
    "division by one": (lambda: make({"a": "Div(x, one)", "y": "Relu(a)"}, X, Y, HELD), {"Relu": 1}),
    "one divided": (lambda: make({"a": "Div(one, x)", "y": "Relu(a)"}, X, Y, HELD), {"Relu": 1, "Div": 1}),
    "product with ones that repeats": (
        lambda: make({"a": "Mul(x, many)", "y": "Relu(a)"}, "float[1, 4, 12] x", "float[3, 4, 12] y", HELD),
        {"Relu": 1, "Mul": 1},
    ),
    "product with a half": (lambda: make({"a": "Mul(x, half)", "y": "Relu(a)"}, X, Y, HELD), {"Relu": 1, "Mul": 1}),
    "cast to the same type": (lambda: make({"a": "Cast <to = 1> (x)", "y": "Relu(a)"}, X, Y, HELD), {"Relu": 1}),
    "cast there and back": (
        lambda: make({"a": "Cast <to = 11> (x)", "b": "Cast <to = 1> (a)", "y": "Relu(b)"}, X, Y, HELD),
        {"Relu": 1, "Cast": 2},
    ),
    "equal casts": (
        lambda: make(
            {
                "a": "Cast <to = 11> (x)",
                "b": "Cast <to = 11> (x)",
                "c": "Cast <to = 1> (a)",
                "d": "Cast <to = 1> (b)",
                "y": "Add(c, d)",
            },
            X,
            Y,
            HELD,
        ),
        {"Cast": 2, "Add": 1},
    ),
    "equal casts that are outputs": (
        lambda: make({"y": "Cast <to = 11> (x)", "z": "Cast <to = 11> (x)"}, X, "double y, double z", HELD),
        {"Cast": 2},
    ),
    # Whether a size is 2 says nothing about others, though it is not in any that are tried.
    "decision about an open size": (
        lambda: make(
            {
                "n": "Shape <end = 1> (x)",
                "e": "Equal(n, two)",
                "f": "Cast <to = 1> (e)",
                "y": "Add(x, f)",
            },
            X,
            Y,
            {**HELD, "two": np.array([2])},
        ),
        {"Shape": 1, "Equal": 1, "Cast": 1, "Add": 1},
    ),
    "dropout": (lambda: make({"a": "Dropout(x)", "y": "Relu(a)"}, X, Y, HELD), {"Relu": 1}),
    "dropout whose mask is read": (
        lambda: make({"a, mask": "Dropout(x)", "f": "Cast <to = 1> (mask)", "y": "Mul(a, f)"}, X, Y, HELD),
        {"Dropout": 1, "Cast": 1, "Mul": 1},
    ),
    "transposed weight": (
        lambda: make({"t": "Transpose <perm = [1, 0]> (w)", "y": "MatMul(x, t)"}, X, Y, HELD),
        {"MatMul": 1},
    ),
    "transposed and reshaped weight": (
        lambda: make(
            {"t": "Transpose(big)", "r": "Reshape(t, shape)", "y": "MatMul(x, r)"},
            "float[4, 4, 12] x",
            "float[4, 4, 12] y",
            HELD,
        ),
        {"MatMul": 1},
    ),
    "weight transposed twice": (
        lambda: make({"t": "Transpose(w)", "u": "Transpose(w)", "a": "MatMul(x, t)", "y": "MatMul(a, u)"}, X, Y, HELD),
        {"MatMul": 2},
    ),
    "shape that is fixed": (
        lambda: make(
            {"s": "Shape(x)", "h": "Mul(s, s)", "f": "Cast <to = 1> (h)", "a": "ReduceSum(f, axis)", "y": "Add(x, a)"},
            "float[2, 4, 6] x",
            "float[2, 4, 6] y",
            HELD,
        ),
        {"Add": 1},
    ),
    "shape that is open": (
        lambda: make({"s": "Shape(x)", "y": "Reshape(x, s)"}, X, Y, HELD),
        {"Shape": 1, "Reshape": 1},
    ),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_what_computes_nothing_goes(name):
    build, left = GRAPHS[name]
    model = build()
    by_hand.fuse(model)
    assert rewriting.counts(model) == left
    assert max(by_hand.errors(build, model)) < CLOSE
    assert [value.name for value in model.graph.outputs] == [value.name for value in build().graph.outputs]
    assert all(value.uses() for value in model.graph.initializers.values())


def test_a_view_is_made_once():
    model = GRAPHS["weight transposed twice"][0]()
    by_hand.fuse(model)
    assert list(model.graph.initializers) == ["w.t10"]


def test_a_weight_is_computed_when_it_is_read():
    model = GRAPHS["transposed weight"][0]()
    by_hand.fuse(model)
    tensor = model.graph.initializers["w.t10"].const_value
    assert isinstance(tensor, ir.LazyTensor)
    np.testing.assert_array_equal(tensor.numpy(), by_hand.draw((12, 12), "w").T)


def test_functions_are_inlined():
    text = """<ir_version: 9, opset_import: ["": 18, "local": 1]> g (float[N, 6] x) => (float[N, 6] y) {
        y = local.twice(x)
    }
    <domain: "local", opset_import: ["": 18]> twice (a) => (b) { b = Add(a, a) }"""
    model = ir.from_onnx_text(text)
    by_hand.fuse(model)
    assert rewriting.counts(model) == {"Add": 1}
    assert not model.functions


def test_nothing_of_the_work_is_left_in_the_metadata():
    model = by_hand.convolution()
    by_hand.fuse(model, *rewriting.OPTIMIZATIONS["nhwc-conv"].fusions())
    assert not any("sdperf" in key for node in model.graph for key in node.metadata_props)
