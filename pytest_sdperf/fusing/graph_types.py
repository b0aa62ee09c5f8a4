"""Which node of a graph makes another type than the graph says: the checker of ONNX tells that there is one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import onnx


def contradiction(model: onnx.ModelProto) -> str:
    """Return the first weight or node whose type is not the one that the graph says of it; empty for none.

    Args:
        model: Its weights may lie elsewhere.
    """
    return next(_contradictions(model), "")


def _contradictions(model: onnx.ModelProto) -> Iterator[str]:
    import onnx

    graph = model.graph
    said = {value.name: value.type for value in (*graph.input, *graph.value_info, *graph.output)}
    weights = {tensor.name: tensor.data_type for tensor in graph.initializer}
    for name, given in weights.items():
        if name in said and _element(said[name]) not in (0, given):
            yield f"the weight {name!r} is {dtype_name(given)}, and the graph says {dtype_name(_element(said[name]))}"
    types = {name: onnx.helper.make_tensor_type_proto(given, None) for name, given in weights.items()} | said
    for node in graph.node:
        for name, made in _made(node, types, model).items():
            told = _element(said[name]) if name in said else 0
            if 0 not in (made, told) and made != told:
                where = f"{node.op_type} {node.name or node.output[0]!r}"
                yield f"{where} makes {name!r} in {dtype_name(made)}, and the graph says {dtype_name(told)}"


def _made(node: onnx.NodeProto, types: Mapping[str, onnx.TypeProto], model: onnx.ModelProto) -> dict[str, int]:
    """Return the element types of what a node makes, as far as ONNX knows the operator."""
    import onnx

    given = {name: types[name] for name in node.input if name in types}
    versions = {opset.domain: opset.version for opset in model.opset_import}
    try:
        schema = onnx.defs.get_schema(node.op_type, versions.get(node.domain, 1), node.domain)
        found = onnx.shape_inference.infer_node_outputs(
            schema, node, given, opset_imports=list(model.opset_import), ir_version=model.ir_version
        )
    except (onnx.defs.SchemaError, onnx.shape_inference.InferenceError, onnx.checker.ValidationError, ValueError):
        return {}  # of another domain, or wrong in another way
    return {name: _element(kind) for name, kind in found.items()}


def _element(kind: onnx.TypeProto) -> int:
    return int(kind.tensor_type.elem_type)


def dtype_name(number: int) -> str:
    """Return how torch and numpy call an element type of ONNX: `float16`, `bfloat16`, `int64`."""
    import onnx

    # onnx before 1.19 tells of bfloat16 that numpy calls it float32.
    names = {"float": "float32", "double": "float64"}
    name: str = onnx.TensorProto.DataType.Name(number).lower()
    return names.get(name, name)
