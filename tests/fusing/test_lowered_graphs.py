"""Lowered graphs: faults show, recorded types and shapes are true, nothing else is touched."""

from __future__ import annotations

import time
from collections import Counter

import numpy as np
import onnx_ir as ir
import pytest
from one_op import (
    ADD,
    CONV,
    CONV_SAYS,
    FLAT_NORM,
    GELU,
    HEADS_SAY,
    KV,
    NORM,
    NORM_SAYS,
    QKV,
    SKIP_NORM,
    UNITS,
    assert_agrees,
    error_units,
    execute,
    lowered,
    one_op,
    wide,
)
from onnxruntime.capi import onnxruntime_pybind11_state as state

from pytest_sdperf.core.errors import BuildError
from pytest_sdperf.fusing.lowering import lower

REFUSALS = (state.NotImplemented, state.RuntimeException)


# ----------------------------------------------------------------------------------- the tests above can tell a fault


def swapped(inputs, first, second):
    return {**inputs, first: inputs[second], second: inputs[first]}


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes", "wrong_inputs", "wrong_attributes"),
    [
        ("GroupNorm", NORM, NORM_SAYS, NORM, {**NORM_SAYS, "activation": 0}),
        ("GroupNorm", NORM, NORM_SAYS, NORM, {**NORM_SAYS, "groups": 2}),
        ("GroupNorm", FLAT_NORM, NORM_SAYS, FLAT_NORM, {**NORM_SAYS, "epsilon": 1.2e-5}),
        ("GroupNorm", NORM, NORM_SAYS, swapped(NORM, "gamma", "beta"), NORM_SAYS),
        ("SkipGroupNorm", SKIP_NORM, NORM_SAYS, SKIP_NORM, {**NORM_SAYS, "activation": 0}),
        ("SkipGroupNorm", SKIP_NORM, NORM_SAYS, {**SKIP_NORM, "bias": None}, NORM_SAYS),
        ("NhwcConv", CONV, CONV_SAYS, CONV, {**CONV_SAYS, "pads": [2, 1, 0, 1]}),
        ("NhwcConv", CONV, CONV_SAYS, CONV, {**CONV_SAYS, "pads": [2, 2, 2, 2], "dilations": [2, 2]}),
        ("NhwcConv", CONV, CONV_SAYS, {**CONV, "W": CONV["W"].transpose(0, 2, 1, 3).copy()}, CONV_SAYS),
        ("NhwcConv", CONV, CONV_SAYS, {**CONV, "B": None}, CONV_SAYS),
        ("BiasSplitGelu", GELU, {}, {**GELU, "X": np.roll(GELU["X"], 8, axis=-1)}, {}),
        ("BiasSplitGelu", GELU, {}, {**GELU, "bias": np.roll(GELU["bias"], 8)}, {}),
        ("BiasAdd", ADD, {}, swapped(ADD | {"bias": -ADD["bias"]}, "X", "skip"), {}),
        ("MultiHeadAttention", QKV, HEADS_SAY, QKV, {**HEADS_SAY, "unidirectional": 1}),
        ("MultiHeadAttention", QKV, HEADS_SAY, QKV, {**HEADS_SAY, "scale": 0.3}),
        ("MultiHeadAttention", QKV, HEADS_SAY, {"query": QKV["query"][:, :, :, [0, 2, 1]]}, HEADS_SAY),
        ("MultiHeadAttention", KV, HEADS_SAY, {**KV, "key": KV["key"][:, :, :, ::-1].copy()}, HEADS_SAY),
    ],
)
def test_a_wrong_attribute_or_wire_differs(op_type, inputs, attributes, wrong_inputs, wrong_attributes):
    right, wrong = (
        lowered(op_type, given, attributes=said)[0]
        for given, said in ((inputs, attributes), (wrong_inputs, wrong_attributes))
    )
    assert error_units(wrong, wide(right)) > 1e3 * UNITS[np.float32]


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes"),
    [
        ("GroupNorm", NORM, NORM_SAYS),
        ("SkipGroupNorm", SKIP_NORM, NORM_SAYS),
        ("NhwcConv", CONV, CONV_SAYS),
        ("BiasSplitGelu", GELU, {}),
        ("BiasAdd", ADD, {}),
        ("MultiHeadAttention", QKV, HEADS_SAY),
        ("MultiHeadAttention", KV, HEADS_SAY),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_without_lowering_a_cpu_cannot_run_it(op_type, inputs, attributes, dtype):
    typed = {name: x if name in {"gamma", "beta"} else x.astype(dtype) for name, x in inputs.items()}
    with pytest.raises(REFUSALS):
        execute(one_op(op_type, typed, attributes=attributes), typed)


# ----------------------------------------------------------------------------------------------------- the whole graph


@pytest.mark.parametrize("knowledge", ["static", "dynamic", "unknown"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes"),
    [
        ("GroupNorm", NORM, NORM_SAYS),
        ("SkipGroupNorm", SKIP_NORM, NORM_SAYS),
        ("SkipGroupNorm", {**SKIP_NORM, "skip": NORM["X"]}, NORM_SAYS),
        ("BiasSplitGelu", GELU, {}),
        ("BiasAdd", ADD, {}),
        ("NhwcConv", CONV, CONV_SAYS),
        ("MultiHeadAttention", KV, HEADS_SAY),
    ],
)
def test_recorded_types_and_shapes_are_true(op_type, inputs, attributes, dtype, knowledge):
    typed = {name: x if name in {"gamma", "beta"} else x.astype(dtype) for name, x in inputs.items()}
    model = one_op(op_type, typed, attributes=attributes, knowledge=knowledge)
    lower(model)
    made = [value for node in model.graph for value in node.outputs]
    typed_values = [value for value in made if value.dtype is not None]
    assert knowledge == "unknown" or len(typed_values) == len(made)
    model.graph.outputs[:] = typed_values
    for value, array in zip(typed_values, execute(model, typed), strict=True):
        assert value.dtype == ir.DataType.from_numpy(array.dtype), value
        assert value.shape is None or fits(value.shape, array.shape), value


def fits(shape, true):
    known = [(size, true_size) for size, true_size in zip(shape, true, strict=True) if isinstance(size, int)]
    return all(size == true_size for size, true_size in known)


def test_a_node_in_a_graph_is_replaced_without_a_trace():
    """Names of graph outputs, metadata and the other nodes stay; made-up names are nobody else's."""
    model = one_op("BiasAdd", ADD, weights=("bias",))
    graph = model.graph
    taken = ir.val("val_0", const_value=ir.tensor(ADD["bias"], name="val_0"))
    graph.register_initializer(taken)
    node = graph[0]
    node.metadata_props["pkg.torch.onnx.name_scopes"] = "['', 'to_out']"
    doubled = ir.node("Add", [node.outputs[0], taken], name="after")
    doubled.outputs[0].name, doubled.outputs[0].dtype = "twice", ir.DataType.FLOAT
    graph.append(doubled)
    graph.outputs.append(doubled.outputs[0])
    assert lower(model) == Counter({"com.microsoft::BiasAdd": 1})
    assert [node.op_type for node in graph] == ["Add", "Add", "Add"]
    assert [node.name for node in graph] == ["Y/lowered_0", "Y/lowered_1", "after"]
    assert [dict(node.metadata_props) for node in graph] == [{"pkg.torch.onnx.name_scopes": "['', 'to_out']"}] * 2 + [
        {}
    ]
    assert [output.name for output in graph.outputs] == ["Y", "twice"]
    y, twice = execute(model, ADD)
    np.testing.assert_array_equal(twice, y + ADD["bias"])


@pytest.mark.parametrize("outputs", [("Y",), ("Y", ""), ("Y", "S")])
def test_the_sum_of_skip_group_norm_is_optional(outputs):
    model = one_op("SkipGroupNorm", SKIP_NORM, attributes=NORM_SAYS, outputs=outputs)
    lower(model)
    (expected,) = lowered("SkipGroupNorm", SKIP_NORM, attributes=NORM_SAYS)
    obtained = execute(model, SKIP_NORM)
    assert len(obtained) == len([name for name in outputs if name])
    np.testing.assert_array_equal(obtained[0], expected)


def test_two_nodes_that_share_weights_are_lowered_each():
    model = one_op("NhwcConv", CONV, attributes=CONV_SAYS, weights=("W", "B"))
    graph, first = model.graph, model.graph[0]
    second = ir.node("NhwcConv", [first.outputs[0], *first.inputs[1:]], dict(first.attributes), domain="com.microsoft")
    second.outputs[0].name, second.outputs[0].dtype = "Z", ir.DataType.FLOAT
    graph.append(second)
    graph.outputs[:] = second.outputs
    assert lower(model) == Counter({"com.microsoft::NhwcConv": 2})
    (obtained,) = execute(model, CONV)
    once = lowered("NhwcConv", CONV, attributes=CONV_SAYS)
    (twice,) = lowered("NhwcConv", {**CONV, "X": once[0]}, attributes=CONV_SAYS)
    assert_agrees(obtained, wide(twice), dtype=np.float32)


def test_a_refused_graph_is_left_as_it_was():
    model = one_op("GroupNorm", NORM, attributes=NORM_SAYS)
    refused = ir.node(
        "GroupNorm", [model.graph.outputs[0], *model.graph[0].inputs[1:]], {"groups": 4}, domain="com.microsoft"
    )
    model.graph.append(refused)
    before = ir.to_proto(model).SerializeToString()
    with pytest.raises(BuildError):
        lower(model)
    assert ir.to_proto(model).SerializeToString() == before


def test_an_opset_that_is_too_old_is_refused():
    with pytest.raises(BuildError) as caught:
        lower(one_op("BiasAdd", ADD, opset=16))
    assert str(caught.value) == "a graph of opset 16 cannot be lowered for a CPU; supported: opset 17 and later."


def test_a_graph_without_such_ops_is_not_asked_for_its_opset():
    graph = ir.Graph([], [], nodes=[], opset_imports={"": 11}, name="empty")
    assert lower(ir.Model(graph, ir_version=8)) == Counter()


def test_a_graph_of_5000_nodes_is_not_searched_for_each_of_them():
    x, gamma = (ir.val(name, ir.DataType.FLOAT, shape) for name, shape in (("X", [2, 8, 8, 8]), ("gamma", [8])))
    nodes, value = [], x
    for index in range(5000):
        if index % 10:
            node = ir.node("Add", [value, x])
        else:
            node = ir.node("GroupNorm", [value, gamma, gamma], NORM_SAYS, domain="com.microsoft")
        value = node.outputs[0]
        value.name = f"value_{index}"
        nodes.append(node)
    opsets = {"": 18, "com.microsoft": 1}
    model = ir.Model(ir.Graph([x, gamma], [value], nodes=nodes, opset_imports=opsets, name="long"), ir_version=10)
    start = time.process_time()
    assert lower(model) == Counter({"com.microsoft::GroupNorm": 500})
    assert time.process_time() - start < 20  # half a second on an idle machine, and minutes for such a search
