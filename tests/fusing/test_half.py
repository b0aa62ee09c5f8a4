"""Conversion to float16: what is converted, what stays, and that numbers stay numbers."""

from __future__ import annotations

import by_hand
import exact
import numpy as np
import onnx_ir as ir
import pytest
import rewriting
from by_hand import make
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pytest_sdperf.core.errors import BuildError
from pytest_sdperf.fusing.half import narrow
from pytest_sdperf.fusing.optimizations.fusions.group_norm import GroupNorm

FLOAT, HALF = ir.DataType.FLOAT, ir.DataType.FLOAT16
# A few operators in float16: units of 2^-11.
CLOSE = 4 * 2.0**-11
LOWEST = np.finfo(np.float32).min
WEIGHTS = {
    "w": (8, 8), "one": np.float32(1), "lowest": np.float32(LOWEST), "tiny": np.float32(1e-12), "zero": np.float32(0),
    "last": np.array([-1]), "row": np.array([1]),
    "half": np.float32(0.5),
}  # fmt: skip
X = "float[N, 8] x"
Y = "float[N, 8] y"

# Graph, and the casts that are left.
GRAPHS = {
    "product": (lambda: make({"y": "MatMul(x, w)"}, X, Y, WEIGHTS), 0),
    # (1 - mask) x lowest: an infinity times 0 is no number.
    "mask times the lowest number": (
        lambda: make(
            {"a": "Sub(one, m)", "b": "Mul(a, lowest)", "s": "Add(x, b)", "y": "Softmax(s)"},
            f"{X}, float[N, 8] m",
            Y,
            WEIGHTS,
        ),
        0,
    ),
    "mask of booleans": (
        lambda: make(
            {
                "z": "Sub(x, x)",
                "e": "Equal(z, zero)",
                "f": "Cast <to = 1> (e)",
                "a": "Sub(one, f)",
                "b": "Mul(a, lowest)",
                "s": "Add(x, b)",
                "y": "Softmax(s)",
            },
            X,
            Y,
            WEIGHTS,
        ),
        1,
    ),
    "mask filled": (
        lambda: make(
            {
                "n": "Shape(x)",
                "c": "ConstantOfShape <value = float[1] {-3.0e38}> (n)",
                "z": "Sub(x, x)",
                "e": "Equal(z, zero)",
                "m": "Where(e, zero, c)",
                "s": "Add(x, m)",
                "y": "Softmax(s)",
            },
            X,
            Y,
            WEIGHTS,
        ),
        0,
    ),
    "zeros by default": (
        lambda: make({"n": "Shape(x)", "c": "ConstantOfShape(n)", "y": "Add(x, c)"}, X, Y, WEIGHTS),
        0,
    ),
    "epsilon": (
        lambda: make({"z": "Sub(x, x)", "d": "Add(z, tiny)", "q": "Div(d, d)", "y": "Add(q, x)"}, X, Y, WEIGHTS),
        0,
    ),
    # Range takes no float16, nor does Resize take such factors.
    "range": (
        lambda: make(
            {
                "n": "Shape <end = 1> (x)",
                "f": "Cast <to = 1> (n)",
                "f0": "Squeeze(f)",
                "r": "Range(zero, f0, one)",
                "c": "Unsqueeze(r, row)",
                "y": "Add(x, c)",
            },
            X,
            Y,
            WEIGHTS,
        ),
        2,
    ),
    "factors from an input": (
        lambda: make(
            {
                "y": 'Resize <mode = "nearest", nearest_mode = "floor", '
                'coordinate_transformation_mode = "asymmetric"> (x, , z)'
            },
            "float[N, 4, 3, 3] x, float[4] z",
            "float[N, 4, 6, 6] y",
            WEIGHTS,
        ),
        1,
    ),
    "cast of float32 to float32": (lambda: make({"c": "Cast <to = 1> (x)", "y": "Relu(c)"}, X, Y, WEIGHTS), 0),
    "cast of whole numbers": (
        lambda: make({"c": "Cast <to = 1> (i)", "y": "MatMul(c, w)"}, "int64[N, 8] i", Y, WEIGHTS),
        1,
    ),
    "weight that is also an angle": (
        lambda: make(
            {"a": "Mul(t, half)", "s": "Sin(a)", "h": "Mul(x, half)", "y": "Add(h, s)"},
            f"{X}, float[N, 1] t",
            Y,
            WEIGHTS,
        ),
        2,
    ),
    "sinusoids": (
        lambda: make(
            {"a": "Mul(t, half)", "s": "Sin(a)", "c": "Cos(a)", "j": "Concat <axis = -1> (s, c)", "y": "Mul(j, x)"},
            "float[N, 2] x, float[N, 1] t",
            "float[N, 2] y",
            WEIGHTS,
        ),
        2,
    ),
    "sinusoid that is an output": (
        lambda: make({"y": "Sin(x)"}, X, Y, WEIGHTS),
        2,
    ),
    "shape of an image beside an angle": (
        lambda: make(
            {
                "n": "Shape <end = 1> (x)",
                "e": "Expand(t, n)",
                "s": "Sin(e)",
                "s2": "Unsqueeze(s, row)",
                "y": "Add(x, s2)",
            },
            f"{X}, float[1] t",
            Y,
            WEIGHTS,
        ),
        2,
    ),
}


def floats(model):
    return [node for node in model.graph if any(value.dtype == FLOAT for value in node.outputs)]


@pytest.mark.parametrize("name", GRAPHS)
def test_a_graph_of_halves_computes_the_same(name):
    build, casts = GRAPHS[name]
    model = build()
    by_hand.fuse(model, to_float16=True)
    assert rewriting.counts(model)["Cast"] == casts
    assert {value.dtype for value in (*model.graph.inputs, *model.graph.outputs)} <= {HALF, ir.DataType.INT64}
    plain = build()
    inputs = {
        name: array.astype(np.float16).astype(array.dtype) if array.dtype == np.float32 else array % 9
        for name, array in rewriting.draw_inputs(plain, {"N": 3}).items()
    }
    if "m" in inputs:
        inputs["m"] = np.tile(np.array([1, 0, 1, 1, 0, 0, 1, 1], np.float32), (3, 1))
    if "z" in inputs:
        inputs["z"] = np.array([1, 1, 2, 2], np.float32)
    expected = exact.evaluate(plain, inputs)
    assert rewriting.error(rewriting.run(model, inputs), expected) < CLOSE


@pytest.mark.parametrize("cast", [False, True], ids=["all", "with a float32 island"])
def test_a_graph_that_was_converted_before_stays_as_it_is(cast):
    wide, back = ("Cast <to = 1> (t)", "Cast <to = 10> (s)") if cast else ("Neg(t)", "Neg(s)")
    model = make({"a": wide, "s": "Sin(a)", "c": back, "y": "Mul(c, x)"}, "float16[N, 2] x, float16[N, 1] t",
                 "float16[N, 2] y", WEIGHTS)  # fmt: skip
    before = rewriting.counts(model)
    by_hand.fuse(model, to_float16=True)
    assert rewriting.counts(model) == before
    inputs = {"x": np.ones((1, 2), np.float32), "t": np.full((1, 1), 0.5, np.float32)}
    assert rewriting.run(model, inputs)[0] == pytest.approx(np.sin(0.5), rel=1e-3)


def test_sinusoids_stay_float32():
    model = GRAPHS["sinusoids"][0]()
    by_hand.fuse(model, to_float16=True)
    assert [node.op_type for node in floats(model)] == ["Cast", "Mul", "Sin", "Cos", "Concat"]
    large = {"x": np.ones((1, 2), np.float32), "t": np.full((1, 1), 999, np.float32)}
    obtained = rewriting.run(model, large)[0]
    assert obtained == pytest.approx(np.array([[np.sin(499.5), np.cos(499.5)]]), abs=1e-3)


def test_what_is_read_by_both_is_there_in_both_types():
    model = GRAPHS["weight that is also an angle"][0]()
    by_hand.fuse(model, to_float16=True)
    held = {value.name: value.dtype for value in model.graph.initializers.values()}
    assert held == {"half": FLOAT, "half.half": HALF}


def test_named_inputs_and_outputs_keep_their_type():
    model = make({"h": "Relu(t)", "s": "Add(x, h)", "y": "Relu(s)", "z": "Sigmoid(s)"}, f"{X}, float[N, 8] t",
                 f"{Y}, float[N, 8] z", WEIGHTS)  # fmt: skip
    by_hand.fuse(model, to_float16=True, float32={"t", "z"})
    assert {value.name: value.dtype for value in model.graph.inputs} == {"x": HALF, "t": FLOAT}
    assert [(value.name, value.dtype) for value in model.graph.outputs] == [("y", HALF), ("z", FLOAT)]
    obtained = rewriting.run(model, {"x": np.ones((1, 8), np.float32), "t": np.ones((1, 8), np.float32)})
    assert [array.dtype for array in obtained] == [np.float16, np.float32]
    assert obtained[0] == pytest.approx(2)
    assert obtained[1] == pytest.approx(1 / (1 + np.exp(-2)), rel=1e-3)


def test_an_input_that_is_an_output():
    model = make({"y": "Relu(x)"}, X, Y, WEIGHTS)
    model.graph.outputs.append(model.graph.inputs[0])
    by_hand.fuse(model, to_float16=True)
    assert [(value.name, value.dtype) for value in model.graph.outputs] == [("y", HALF), ("x", HALF)]


def test_scales_of_a_group_norm_stay_float32():
    model = by_hand.group_norm()
    by_hand.fuse(model, GroupNorm(), to_float16=True)
    assert {value.name: value.dtype for value in model.graph.initializers.values()} == {
        "gamma.channels": FLOAT, "beta.channels": FLOAT,
    }  # fmt: skip


def test_scales_of_a_group_norm_of_halves_become_float32():
    model = by_hand.group_norm()
    for value in [*model.graph.inputs, *model.graph.outputs]:
        value.dtype = HALF
    for value in model.graph.initializers.values():
        if value.dtype == FLOAT:
            value.const_value = ir.tensor(value.const_value.numpy().astype(np.float16), name=value.name)
            value.dtype = HALF
    scale = model.graph.initializers["gamma"].const_value.numpy()
    by_hand.fuse(model, GroupNorm())
    gamma = model.graph.initializers["gamma.channels"].const_value
    assert gamma.dtype == FLOAT
    np.testing.assert_array_equal(gamma.numpy(), scale.reshape(-1).astype(np.float32))


def test_the_mean_of_a_layer_norm_is_float32():
    model = make({"n, mean": "LayerNormalization(x, g, g)", "m": "Relu(mean)", "y": "Add(n, m)"}, X, Y, {"g": (8,)})
    by_hand.fuse(model, to_float16=True)
    assert rewriting.counts(model)["Cast"] == 1
    inputs = rewriting.draw_inputs(model, {"N": 2})
    assert rewriting.run(model, inputs)[0].dtype == np.float16


@pytest.mark.parametrize("opset", [17, 18, 20, 21, 23])
def test_steps_of_a_quantizer_stay_float32(opset):
    """This one is 0 in float16, and what it makes of whole numbers is not."""
    codes = np.tile(np.array([64, -128], np.int8), (8, 4))
    weights = {"codes": codes, "step": np.float32(2.0**-25), "large": np.float32(2.0**15)}
    lines = {"w": "DequantizeLinear(codes, step)", "p": "MatMul(x, w)", "y": "Mul(p, large)"}
    model = make(lines, X, Y, weights, opset=opset)
    by_hand.fuse(model, to_float16=True)
    assert [value.dtype for value in (*model.graph.inputs, *model.graph.outputs)] == [HALF, HALF]
    x = np.linspace(0.5, 1, 24, dtype=np.float32).reshape(3, 8)
    expected = x @ (codes.astype(np.float32) * 2.0**-10)
    assert rewriting.run(model, {"x": x})[0] == pytest.approx(expected, rel=2.0**-6)


@pytest.mark.parametrize(("name", "told"), [("choice", "choice"), ("", "y")])
@pytest.mark.parametrize("op", ["If", "Loop"])
def test_graphs_within_a_graph_are_refused_with_the_node_and_the_way_out(op, name, told):
    says = {
        "If": """If(c) <then_branch = t () => (float[N, 8] a) { a = Relu(x) },
                        else_branch = e () => (float[N, 8] b) { b = Identity(x) }>""",
        "Loop": """Loop("", c, x) <body = b (int64 i, bool go, float[N, 8] r) => (bool on, float[N, 8] s)
                                          { on = Identity(go) s = Relu(r) }>""",
    }[op].replace('""', "")
    text = f"""<ir_version: 9, opset_import: ["": 18]> g (bool c, float[N, 8] x) => (float[N, 8] y) {{ y = {says} }}"""
    model = ir.from_onnx_text(text)
    model.graph[0].name = name
    with pytest.raises(BuildError) as caught:
        by_hand.fuse(model, to_float16=True)
    assert str(caught.value) == (
        f"{op} {told!r} holds a graph, which is not converted to float16. Type --optimization=fp32, or "
        "--optimization=as-is for a graph of your own, or export the model without control flow."
    )


@given(hnp.arrays(np.float32, hnp.array_shapes(max_dims=2, max_side=4),
                  elements=st.floats(width=32, allow_nan=True, allow_infinity=True)))  # fmt: skip
def test_finite_numbers_stay_finite_and_others_are_rounded(array):
    halves = narrow(array)
    assert halves.dtype == np.float16
    assert halves.shape == array.shape
    np.testing.assert_array_equal(np.isnan(halves), np.isnan(array))
    np.testing.assert_array_equal(np.isinf(halves), np.isinf(array))
    inside = np.abs(array) < 65504
    if array.size > 1:
        np.testing.assert_array_equal(halves[inside], array[inside].astype(np.float16))
    else:
        np.testing.assert_array_equal(halves == 0, array == 0)
    np.testing.assert_array_equal(np.signbit(halves), np.signbit(array))
