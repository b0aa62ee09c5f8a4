"""float32 -> float16: weights, values, inputs and outputs; what must stay exact stays float32."""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np
import onnx_ir as ir

from pytest_sdperf.fusing.fusion_graph import MICROSOFT, FusionGraph

FLOAT, HALF = ir.DataType.FLOAT, ir.DataType.FLOAT16

# Inputs that the operator's schema or its CUDA kernel takes in float32 only.
_FLOAT_INPUTS = {
    ("", "Resize"): (1, 2),
    (MICROSOFT, "GroupNorm"): (1, 2),
    (MICROSOFT, "SkipGroupNorm"): (1, 2),
}
_MOVES = ("Concat", "Slice", "Split", "Identity", "Reshape", "Unsqueeze", "Squeeze", "Expand", "Cast")


def to_half(graph: FusionGraph, *, float32: Collection[str]) -> None:
    """Convert a graph in place.

    The sinusoids of a timestep stay float32, as in torch: in float16 an angle of 999 is off by up to 0.25 radians.
    The scale and offset of a fused group norm stay float32 too, because its kernel takes nothing else.

    Args:
        graph: Its floating-point values are float32.
        float32: Names of inputs and outputs of the graph that keep their type.
    """
    exact = _exact_nodes(graph)
    outside = [node for node in graph.graph if node not in exact]
    halves: dict[ir.Value, ir.Value] = {}
    floats: dict[ir.Value, ir.Value] = {}
    _retype_values(graph, exact, float32)
    for node in outside:
        slots = _FLOAT_INPUTS.get((node.domain, node.op_type), ())
        for index, value in enumerate(node.inputs):
            if value is not None and index not in slots and value.dtype == FLOAT:
                node.replace_input_with(index, _as_half(value, graph, halves, node))
    for node in exact:
        for index, value in enumerate(node.inputs):
            if value is not None and value.dtype == HALF:
                node.replace_input_with(index, _cast(value, FLOAT, graph, floats, node))
    for node in outside:
        _retype_attributes(node, graph)
    for index, value in enumerate(graph.graph.outputs):
        if value.name in float32 and value.dtype == HALF:
            _widen_output(index, value, graph)
    _drop_unused_weights(graph)


def _exact_nodes(graph: FusionGraph) -> dict[ir.Node, None]:
    """Return the nodes that compute sinusoids, what leads to them, and the moves right behind them."""
    exact: dict[ir.Node, None] = {}
    waiting = graph.nodes("Sin", "Cos")
    while waiting:
        node = waiting.pop()
        if node not in exact:
            exact[node] = None
            waiting.extend(p for value in node.inputs if value is not None and (p := value.producer()) is not None)
    for node in graph.graph:
        sources = [value for value in node.inputs if value is not None and not graph.is_fixed(value)]
        if node.op_type in _MOVES and sources and all(value.producer() in exact for value in sources):
            exact[node] = None
    return {node: None for node in graph.graph if node in exact}


def _retype_values(graph: FusionGraph, exact: Collection[ir.Node], float32: Collection[str]) -> None:
    for value in graph.graph.inputs:
        if value.dtype == FLOAT and value.name not in float32:
            value.dtype = HALF
    for node in graph.graph:
        for value in node.outputs:
            if node not in exact and value.dtype == FLOAT:
                value.dtype = HALF


def _as_half(value: ir.Value, graph: FusionGraph, halves: dict[ir.Value, ir.Value], node: ir.Node) -> ir.Value:
    if not value.is_initializer() or value.const_value is None:
        return _cast(value, HALF, graph, halves, node)
    if value not in halves:
        source = value.const_value
        name = value.name or "weight"
        tensor = ir.LazyTensor(_halver(source), dtype=HALF, shape=source.shape, name=f"{name}.half")
        tensor.metadata_props.update(source.metadata_props)
        halves[value] = graph.initializer(f"{name}.half", tensor)
    return halves[value]


def _halver(source: ir.TensorProtocol) -> Callable[[], ir.TensorProtocol]:
    def compute() -> ir.TensorProtocol:
        array = source.numpy()
        # The masks of some exporters hold the lowest float32: as float16 that is an infinity, which softmax takes.
        with np.errstate(over="ignore"):
            return ir.tensor(array.astype(np.float16))

    return compute


def _cast(
    value: ir.Value, dtype: ir.DataType, graph: FusionGraph, done: dict[ir.Value, ir.Value], node: ir.Node
) -> ir.Value:
    if value not in done:
        producer = value.producer()
        first = node if producer is None else None
        cast = graph.add("Cast", [value], {"to": int(dtype)}, before=first or _after(producer, graph))
        cast.outputs[0].dtype = dtype
        cast.outputs[0].shape = value.shape
        done[value] = cast.outputs[0]
    return done[value]


def _after(producer: ir.Node | None, graph: FusionGraph) -> ir.Node:
    """Return a node behind a producer; the graph is sorted again at the end."""
    assert producer is not None
    users = graph.users(producer.outputs[0])
    return users[0] if users else producer


def _retype_attributes(node: ir.Node, graph: FusionGraph) -> None:
    if node.op_type == "Cast" and node.attributes["to"].as_int() == int(FLOAT) and node.outputs[0].dtype == HALF:
        source = node.inputs[0]
        if source is not None and source.dtype == HALF and not graph.is_output(node.outputs[0]):
            graph.replace(node.outputs[0], source)
            return
        node.attributes["to"] = ir.AttrInt64("to", int(HALF))
    value = node.attributes.get("value")
    if node.op_type in ("Constant", "ConstantOfShape") and value is not None:
        tensor = value.as_tensor()
        if tensor.dtype == FLOAT:
            node.attributes["value"] = ir.AttrTensor("value", ir.tensor(tensor.numpy().astype(np.float16)))


def _widen_output(index: int, value: ir.Value, graph: FusionGraph) -> None:
    last = value.producer()
    assert last is not None
    name, value.name = value.name, f"{value.name}.half"
    cast = ir.node("Cast", [value], {"to": int(FLOAT)}, name=f"{name}.float")
    cast.outputs[0].name, cast.outputs[0].dtype, cast.outputs[0].shape = name, FLOAT, value.shape
    graph.graph.insert_after(last, cast)
    graph.graph.outputs[index] = cast.outputs[0]


def _drop_unused_weights(graph: FusionGraph) -> None:
    for name, value in list(graph.graph.initializers.items()):
        if not value.uses() and not graph.is_output(value):
            del graph.graph.initializers[name]
