"""Types of values that an exporter did not record (TorchScript records none)."""

from __future__ import annotations

import onnx_ir as ir

_INTEGERS = ("Shape", "Size", "ArgMax", "ArgMin", "NonZero")
_BOOLEANS = ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "IsNaN", "IsInf", "Not", "And", "Or", "Xor")
# The input whose type the result has, where that is not the first.
_TYPED_BY = {"Where": 1, "OneHot": 2}


def record(graph: ir.Graph) -> None:
    """Give a type to every value that has none."""
    for node in graph:
        for value in node.outputs:
            if value.dtype is None and (dtype := _result(node)) is not None:
                value.dtype = dtype


def _result(node: ir.Node) -> ir.DataType | None:
    if node.op_type == "Cast":
        return ir.DataType(node.attributes["to"].as_int())
    if node.op_type in _INTEGERS:
        return ir.DataType.INT64
    if node.op_type in _BOOLEANS:
        return ir.DataType.BOOL
    if node.op_type in ("Constant", "ConstantOfShape"):
        value = node.attributes.get("value")
        return value.as_tensor().dtype if value is not None else ir.DataType.FLOAT
    index = _TYPED_BY.get(node.op_type, 0)
    source = node.inputs[index] if len(node.inputs) > index else None
    if source is None:
        return None
    if source.dtype is None and source.const_value is not None:
        return source.const_value.dtype
    return source.dtype
