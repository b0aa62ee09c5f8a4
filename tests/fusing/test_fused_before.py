"""Graphs that another tool has fused or converted already, and that are fused further."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import TensorProto, helper

from pytest_sdperf.fusing.inference import output_shapes
from pytest_sdperf.fusing.native import fuse

CONV = {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1)}


def node(op_type, inputs, *, outputs=1, **attributes):
    values = [ir.Value(name=f"i{index}") for index in range(inputs)]
    return ir.node(op_type, values, attributes, domain="com.microsoft", num_outputs=outputs)


@pytest.mark.parametrize(
    ("made", "shapes", "expected"),
    [
        (node("NhwcConv", 2, **CONV), [(2, 16, 24, 4), (8, 3, 3, 4)], [(2, 16, 24, 8)]),
        (node("NhwcConv", 2, **CONV, strides=(2, 2)), [(2, 16, 24, 4), (8, 3, 3, 4)], [(2, 8, 12, 8)]),
        (node("NhwcConv", 2), [(2, 16, 24, 4), (8, 1, 1, 4)], [(2, 16, 24, 8)]),
        (node("BiasSplitGelu", 2), [(2, 16, 64), (64,)], [(2, 16, 32)]),
        (node("MultiHeadAttention", 3), [(2, 16, 64), (2, 77, 64), (2, 77, 96)], [(2, 16, 96)]),
        (node("MultiHeadAttention", 2), [(2, 16, 64), (2, 77, 8, 2, 8)], [(2, 16, 64)]),
        (node("MultiHeadAttention", 1), [(2, 16, 8, 3, 8)], [(2, 16, 64)]),
        (node("SkipGroupNorm", 1, outputs=2), [(2, 16, 24, 4)], [(2, 16, 24, 4)] * 2),
        (
            node("SkipLayerNormalization", 1, outputs=4),
            [(2, 16, 64)],
            [(2, 16, 64), None, None, (2, 16, 64)],
        ),
        (node("SomethingElse", 1), [(2, 16, 64)], []),
    ],
    ids=lambda value: value.op_type if isinstance(value, ir.Node) else "",
)
def test_shapes_behind_fused_operators_are_known(made, shapes, expected):
    assert list(output_shapes(made, [(shape, None) for shape in shapes])) == expected


def test_a_convolution_that_pads_by_itself_has_no_known_shape():
    with pytest.raises(ValueError, match="the padding is chosen by the operator"):
        output_shapes(node("NhwcConv", 2, auto_pad="SAME_UPPER"), [((2, 16, 24, 4), None), ((8, 3, 3, 4), None)])


def test_sinusoids_that_were_converted_before_go_on_in_float16():
    nodes = [
        helper.make_node("Sin", ["t"], ["sine"], name="sine"),
        helper.make_node("Cast", ["sine"], ["half"], name="half", to=TensorProto.FLOAT16),
        helper.make_node("Concat", ["half", "half"], ["both"], name="both", axis=0),
        helper.make_node("Add", ["x", "both"], ["y"], name="sum"),
    ]
    value = helper.make_tensor_value_info
    inputs = [value("t", TensorProto.FLOAT, [1]), value("x", TensorProto.FLOAT16, [2])]
    graph = helper.make_graph(nodes, "g", inputs, [value("y", TensorProto.FLOAT16, [2])])
    model = ir.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9))
    fuse(model, [], to_float16=True, float32=["t"])
    session = onnxruntime.InferenceSession(ir.to_proto(model).SerializeToString(), providers=["CPUExecutionProvider"])
    given = {"t": np.array([2], np.float32), "x": np.array([1, 2], np.float16)}
    (found,) = session.run(None, given)
    np.testing.assert_allclose(found, given["x"] + np.sin(given["t"]), rtol=1e-3)
