"""Types of values that an exporter did not record (TorchScript records none)."""

from __future__ import annotations

import onnx_ir as ir

_INTEGERS = frozenset({"Shape", "Size", "ArgMax", "ArgMin", "NonZero"})
_BOOLEANS = frozenset(
    {"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "IsNaN", "IsInf", "Not", "And", "Or", "Xor"}
)
# The input whose type the result has, where that is not the first.
_TYPED_BY = {"Where": 1, "OneHot": 2, "CastLike": 1}


def record(graph: ir.Graph) -> None:
    """Give a type to every value that has none."""
    for value in graph.initializers.values():
        if value.dtype is None and value.const_value is not None:
            value.dtype = value.const_value.dtype
    for node in graph:
        record_outputs(node)


def record_outputs(node: ir.Node) -> None:
    """Give a type to every output of a node that has none."""
    for index, value in enumerate(node.outputs):
        if value.dtype is None and (dtype := _result(node, index)) is not None:
            value.dtype = dtype


def _result(node: ir.Node, index: int) -> ir.DataType | None:
    if node.domain == "":
        if node.op_type == "Cast":
            return ir.DataType(node.attributes["to"].as_int())
        if node.op_type in _INTEGERS or (node.op_type == "TopK" and index):
            return ir.DataType.INT64
        if node.op_type == "LayerNormalization" and index:
            return ir.DataType.FLOAT
        if node.op_type in _BOOLEANS or (node.op_type == "Dropout" and index):
            return ir.DataType.BOOL
        if node.op_type in ("Constant", "ConstantOfShape"):
            return _held(node)
    source = _TYPED_BY.get(node.op_type, 0)
    found = node.inputs[source] if len(node.inputs) > source else None
    return None if found is None else found.dtype


def _held(node: ir.Node) -> ir.DataType:
    """Return the type of what a Constant or ConstantOfShape holds."""
    value = node.attributes.get("value")
    if value is not None:
        return value.as_tensor().dtype
    return ir.DataType.INT64 if "value_int" in node.attributes or "value_ints" in node.attributes else ir.DataType.FLOAT
