"""Products that compute in single precision in a graph of half precision."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from pytest_sdperf.fusing.graph_precision import float32_products

HALF, FLOAT = TensorProto.FLOAT16, TensorProto.FLOAT
MICROSOFT = "com.microsoft"


def saved(path, nodes, weights, *, kind=HALF, values=()):
    shape = (2, 4)
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info("y", kind, None)],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
        value_info=[helper.make_tensor_value_info(name, dtype, None) for name, dtype in values],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(MICROSOFT, 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets), path)
    return path


def half(*shape):
    return np.ones(shape, np.float16)


def cast(source, target, to):
    return helper.make_node("Cast", [source], [target], to=to)


@given(wide=st.lists(st.booleans(), min_size=1, max_size=8), told=st.booleans())
@settings(deadline=None, max_examples=40)
def test_each_product_between_casts_is_counted_whether_or_not_the_file_tells_types(tmp_path_factory, wide, told):
    nodes, values, weights, at = [], [], {}, "x"
    for number, is_wide in enumerate(wide):
        weights[f"w{number}"] = half(4, 4)
        product, weight = f"p{number}", f"w{number}"
        if is_wide:
            nodes += [cast(at, f"a{number}", FLOAT), cast(weight, f"b{number}", FLOAT)]
            nodes += [helper.make_node("MatMul", [f"a{number}", f"b{number}"], [f"m{number}"])]
            nodes += [cast(f"m{number}", product, HALF)]
            values += [(f"{name}{number}", FLOAT) for name in "abm"]
        else:
            nodes.append(helper.make_node("MatMul", [at, weight], [product]))
        nodes.append(helper.make_node("Relu", [product], [f"r{number}"]))
        values += [(product, HALF), (f"r{number}", HALF)]
        at = f"r{number}"
    nodes.append(helper.make_node("Identity", [at], ["y"]))
    path = saved(tmp_path_factory.mktemp("graph") / "m.onnx", nodes, weights, values=values if told else ())
    assert float32_products(path) == ({"::MatMul": sum(wide)} if any(wide) else {})


def wide(op, *, domain="", inputs=("a", "b")):
    casts = [cast("x", "a", FLOAT), cast("w", "b", FLOAT)]
    return [*casts, helper.make_node(op, list(inputs), ["m"], domain=domain), cast("m", "y", HALF)]


@pytest.mark.parametrize(
    ("nodes", "name"),
    [
        (wide("Gemm"), "::Gemm"),
        (wide("Conv"), "::Conv"),
        (wide("NhwcConv", domain=MICROSOFT), "com.microsoft::NhwcConv"),
        (wide("MultiHeadAttention", domain=MICROSOFT, inputs=("a",)), "com.microsoft::MultiHeadAttention[packed-qkv]"),
    ],
)
def test_every_product_has_the_name_under_which_it_is_counted(tmp_path, nodes, name):
    assert float32_products(saved(tmp_path / "m.onnx", nodes, {"w": half(4, 4)})) == {name: 1}


@pytest.mark.parametrize("op", ["Softmax", "Add", "LayerNormalization"])
def test_what_is_no_product_may_compute_in_either(tmp_path, op):
    assert float32_products(saved(tmp_path / "m.onnx", wide(op), {"w": half(4, 4)})) == {}


def test_a_weight_that_is_stored_in_float32_makes_a_product_wide(tmp_path):
    nodes = [cast("x", "a", FLOAT), helper.make_node("MatMul", ["a", "v"], ["m"]), cast("m", "y", HALF)]
    weights = {"v": np.ones((4, 4), np.float32), "w": half(8, 8)}
    assert float32_products(saved(tmp_path / "m.onnx", nodes, weights)) == {"::MatMul": 1}


def test_a_graph_of_float32_has_none_even_with_some_narrow_weights(tmp_path):
    nodes = [helper.make_node("MatMul", ["x", "v"], ["m"]), helper.make_node("Add", ["m", "b"], ["y"])]
    weights = {"v": np.ones((4, 4), np.float32), "w": half(2)}
    assert float32_products(saved(tmp_path / "m.onnx", nodes, weights, kind=FLOAT)) == {}


def test_a_choice_has_the_type_of_what_is_chosen_and_not_of_what_was_compared(tmp_path):
    nodes = [
        cast("x", "a", FLOAT),
        helper.make_node("Greater", ["a", "a"], ["larger"]),
        helper.make_node("Where", ["larger", "x", "x"], ["chosen"]),
        helper.make_node("MatMul", ["chosen", "w"], ["narrow"]),
        helper.make_node("CastLike", ["narrow", "a"], ["like"]),
        helper.make_node("MatMul", ["like", "a"], ["wide"]),
        helper.make_node("CastLike", ["wide", "x"], ["y"]),
    ]
    assert float32_products(saved(tmp_path / "m.onnx", nodes, {"w": half(4, 4)})) == {"::MatMul": 1}


def test_shapes_and_constants_have_types_of_their_own(tmp_path):
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("ConstantOfShape", ["s"], ["zeros"]),  # float32, unless it says otherwise
        helper.make_node("Transpose", ["zeros"], ["turned"]),
        helper.make_node("MatMul", ["zeros", "turned"], ["wide"]),
        helper.make_node("Constant", [], ["one"], value=numpy_helper.from_array(half(4, 4))),
        helper.make_node("MatMul", ["one", "w"], ["narrow"]),
        cast("narrow", "y", HALF),
    ]
    assert float32_products(saved(tmp_path / "m.onnx", nodes, {"w": half(4, 4)})) == {"::MatMul": 1}
