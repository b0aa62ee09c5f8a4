"""float32 -> float16: weights, values, inputs and outputs; what must stay exact stays float32."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import onnx_ir as ir

from pytest_sdperf.core.errors import BuildError
from pytest_sdperf.fusing import node_types
from pytest_sdperf.fusing.contents import Array
from pytest_sdperf.fusing.derived import derive
from pytest_sdperf.fusing.fusion_graph import GRAPHS, MICROSOFT, FusionGraph

FLOAT, HALF = ir.DataType.FLOAT, ir.DataType.FLOAT16

# Inputs that a fused operator's CUDA kernel takes in float32 only; those of ONNX are in its schemas.
_FLOAT_INPUTS: Mapping[tuple[str, str], frozenset[int]] = {
    (MICROSOFT, "GroupNorm"): frozenset({1, 2}),
    (MICROSOFT, "SkipGroupNorm"): frozenset({1, 2}),
}
# Steps of a quantizer are often smaller than any float16, and CPUs draw these random numbers in float32 only.
_EXACT = frozenset(
    {"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "RandomNormal", "RandomUniform"}
)  # fmt: skip
_MOVES = ("Concat", "Slice", "Split", "Identity", "Reshape", "Unsqueeze", "Squeeze", "Expand", "Cast")
_LARGEST = float(np.finfo(np.float16).max)
_SMALLEST = float(np.finfo(np.float16).smallest_subnormal)


def to_half(graph: FusionGraph, *, float32: Collection[str], float32_ops: Collection[str] = ()) -> None:
    """Convert a graph in place.

    The sinusoids of a timestep stay float32, as in torch: in float16 an angle of 999 is off by up to 0.25 radians.
    The scale and offset of a fused group norm stay float32 too, because its kernel takes nothing else, and so do
    operators that are not defined for float16, and those that turn numbers into integers of 8 bits and back.

    Args:
        graph: Its floating-point values are float32.
        float32: Names of inputs and outputs of the graph that keep their type.
        float32_ops: Operators that compute in float32 too, such as the MultiHeadAttention of a UNet whose products of
            query and key do not fit float16.

    Raises:
        BuildError: A node holds a graph.
    """
    _refuse_subgraphs(graph)
    exact = _exact_nodes(graph, float32_ops)
    outside = [node for node in graph.graph if node not in exact]
    casts: dict[tuple[ir.Value, ir.DataType], ir.Value] = {}
    wide = {value for node in exact for value in node.inputs if value is not None and value.dtype == FLOAT}
    _retype_values(graph, exact, float32)
    for node in outside:
        _convert_inputs(node, graph, casts)
    for node in exact:
        for index, value in enumerate(node.inputs):
            if value in wide and value.dtype == HALF:
                node.replace_input_with(index, _cast(value, FLOAT, graph, casts, node))
    for node in outside:
        _retype_attributes(node)
    _retype_outputs(graph, float32)
    _drop_casts(graph)


def narrow(array: Array) -> Array:
    """Return an array as float16: what is finite stays finite, and a number that is not zero does not become zero.

    The masks of exporters hold the lowest float32, which as an infinity would give NaN where it is multiplied with
    zero. A single number is often an epsilon that keeps a divisor from zero.
    """
    if array.size and not (array.min() >= -_LARGEST and array.max() <= _LARGEST):
        array = np.where(np.isinf(array), array, np.clip(array, -_LARGEST, _LARGEST))
    halves = array.astype(np.float16)
    if array.size == 1 and np.any((halves == 0) & (array != 0)):
        return np.full(array.shape, np.copysign(_SMALLEST, array), dtype=np.float16)
    return halves


def _refuse_subgraphs(graph: FusionGraph) -> None:
    for node in graph.graph:
        if any(attribute.type in GRAPHS for attribute in node.attributes.values()):
            raise BuildError(
                f"{node.op_type} {str(node.name or node.outputs[0].name)!r} holds a graph, which is not converted to "
                f"float16. Type --optimization=fp32, or --optimization=as-is for a graph of your own, or export the "
                f"model without control flow."
            )


def _exact_nodes(graph: FusionGraph, ops: Collection[str]) -> dict[ir.Node, None]:
    """Return the nodes that count or compute sinusoids, what leads to them, and the moves right behind; in order.

    Nodes of an operator in `ops` are among them, alone.
    """
    exact: set[ir.Node] = set()
    waiting = graph.nodes("Sin", "Cos", "Range")
    while waiting:
        node = waiting.pop()
        # A shape is the same in any type; what was converted before stays as it is.
        if node not in exact and node.op_type != "Shape" and not _is_half(node):
            exact.add(node)
            waiting.extend(p for value in node.inputs if value is not None and (p := value.producer()) is not None)
    for node in graph.graph:
        sources = [value for value in node.inputs if value is not None and not graph.is_fixed(value)]
        follows = node.op_type in _MOVES and sources and all(value.producer() in exact for value in sources)
        if (follows and not _is_half(node)) or 0 in _float_inputs(node, graph):
            exact.add(node)
    return {node: None for node in graph.graph if node in exact or node.op_type in ops or node.op_type in _EXACT}


def _is_half(node: ir.Node) -> bool:
    return any(value.dtype == HALF for value in node.outputs)


def _float_inputs(node: ir.Node, graph: FusionGraph) -> frozenset[int]:
    """Return the inputs of a node that cannot be float16."""
    if (node.domain, node.op_type) in _FLOAT_INPUTS:
        return _FLOAT_INPUTS[node.domain, node.op_type]
    schema = node_types.schema_of(node, opset=graph.graph.opset_imports.get("", 0))
    if schema is None:
        return frozenset()
    formals = ((index, schema.input(index)) for index in range(len(node.inputs)))
    return frozenset(index for index, formal in formals if formal is not None and _is_wide(formal))


def _is_wide(formal: node_types.Formal | None) -> bool:
    """Say whether an input or output may be float32 and not float16."""
    return formal is not None and formal.takes(FLOAT) and not formal.takes(HALF)


def _retype_values(graph: FusionGraph, exact: Collection[ir.Node], float32: Collection[str]) -> None:
    for value in graph.graph.inputs:
        if value.dtype == FLOAT and value.name not in float32:
            value.dtype = HALF
            if (default := value.const_value) is not None:
                value.const_value = derive(
                    [default], narrow, ir.Shape(default.shape.numpy()), dtype=HALF, name=str(value.name)
                )
    for node in graph.graph:
        schema = node_types.schema_of(node)
        for index, value in enumerate(node.outputs):
            # The further outputs of a LayerNormalization are float32 always.
            wide = schema is not None and _is_wide(schema.output(index))
            if node not in exact and value.dtype == FLOAT and not wide:
                value.dtype = HALF


def _convert_inputs(node: ir.Node, graph: FusionGraph, casts: dict[tuple[ir.Value, ir.DataType], ir.Value]) -> None:
    slots = _float_inputs(node, graph)
    for index, value in enumerate(node.inputs):
        if value is None or value.dtype not in (FLOAT, HALF):
            continue
        if index in slots and value.dtype == HALF:
            node.replace_input_with(index, _cast(value, FLOAT, graph, casts, node))
        elif index not in slots and value.dtype == FLOAT:
            node.replace_input_with(index, _as_half(value, graph, casts, node))


def _as_half(
    value: ir.Value, graph: FusionGraph, casts: dict[tuple[ir.Value, ir.DataType], ir.Value], node: ir.Node
) -> ir.Value:
    if not graph.is_weight(value) or value.const_value is None:
        return _cast(value, HALF, graph, casts, node)
    return graph.weight(value, "half", value.const_value.shape.numpy(), narrow, dtype=HALF)


def _cast(
    value: ir.Value, dtype: ir.DataType, graph: FusionGraph, casts: dict[tuple[ir.Value, ir.DataType], ir.Value],
    node: ir.Node,
) -> ir.Value:  # fmt: skip
    """Return a value in another type, cast once for all who read it; the graph is sorted afterwards."""
    key = (value, dtype)
    if key not in casts:
        casts[key] = graph.add("Cast", [value], {"to": int(dtype)}, before=node).outputs[0]
        casts[key].shape = value.shape
    return casts[key]


def _retype_attributes(node: ir.Node) -> None:
    """Change the attributes that name the type of the first output, and what a ConstantOfShape holds."""
    for name in node_types.NAMING:
        named = node.attributes.get(name)
        if named is not None and node.outputs[0].dtype == HALF and named.value == int(FLOAT):
            node.attributes[name] = ir.AttrInt64(name, int(HALF))
    value = node.attributes.get("value")
    if node.op_type == "ConstantOfShape" and (value is None or value.as_tensor().dtype == FLOAT):
        number = np.zeros(1, np.float32) if value is None else value.as_tensor().numpy()
        node.attributes["value"] = ir.AttrTensor("value", ir.tensor(narrow(number)))


def _retype_outputs(graph: FusionGraph, float32: Collection[str]) -> None:
    """Give outputs their type by a cast where what computes them has the other one."""
    for index, value in enumerate(graph.graph.outputs):
        wanted = FLOAT if value.name in float32 else HALF
        last = value.producer()
        if value.dtype not in (FLOAT, HALF) or value.dtype == wanted or last is None:
            continue
        name, value.name = value.name, f"{value.name}.inner"
        cast = ir.node("Cast", [value], {"to": int(wanted)}, name=f"{name}.cast")
        cast.outputs[0].name, cast.outputs[0].dtype, cast.outputs[0].shape = name, wanted, value.shape
        graph.graph.insert_after(last, cast)
        graph.graph.outputs[index] = cast.outputs[0]


def _drop_casts(graph: FusionGraph) -> None:
    """Remove casts to the type that a value has by now."""
    for node in list(graph.graph):
        source = node.inputs[0] if node.inputs else None
        if node.graph is None or node.op_type != "Cast" or source is None or source.dtype is None:
            continue
        if int(source.dtype) == node.attributes["to"].as_int() and not graph.is_output(node.outputs[0]):
            graph.replace(node.outputs[0], source)
