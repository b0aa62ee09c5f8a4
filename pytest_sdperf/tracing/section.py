"""A piece of a graph as a graph of its own, and a graph that tells what is inside."""

from __future__ import annotations

import itertools
import math
import shutil
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir

SUBGRAPH = "subgraph.onnx"
USED = "used_numbers"
_FLOATS = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.DOUBLE)


def inner_values(graph: ir.Graph) -> list[str]:
    """Return the floating-point values that nodes of a graph hand on to others, in order."""
    return [
        str(value.name)
        for node in graph
        for value in node.outputs
        if value.name and value.uses() and not value.is_graph_output() and value.dtype in _FLOATS
        if not (node.op_type == "Constant" and not node.domain)
    ]


def reveal(source: Path, folder: Path, names: Collection[str]) -> Path:
    """Write a graph again, with inner values as further outputs; return the file.

    Args:
        source: The graph; its weights lie beside it.
        folder: Where the new one is written.
        names: The values.
    """
    model = onnx.load(source, load_external_data=False)
    outputs = {value.name for value in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in outputs)
    for place in {_location(tensor) for tensor in model.graph.initializer} - {""}:
        # A copy: libraries refuse weights behind a link of either kind.
        shutil.copyfile(source.parent / place, folder / place)
    path = folder / source.name
    path.write_bytes(model.SerializeToString())
    return path


def _location(tensor: onnx.TensorProto) -> str:
    return next((entry.value for entry in tensor.external_data if entry.key == "location"), "")


def nodes_between(value: ir.Value, known: Collection[ir.Value]) -> list[ir.Node]:
    """Return the nodes that make a value of known ones, in the order of the graph."""
    wanted, found = [value], set()
    while wanted:
        node = wanted.pop().producer()
        if node is None or node in found:
            continue
        found.add(node)
        wanted += [one for one in node.inputs if one is not None and one not in known]
    graph = value.producer().graph  # type: ignore[union-attr]
    return [node for node in graph if node in found]  # type: ignore[union-attr]


def boundary(nodes: Sequence[ir.Node]) -> list[ir.Value]:
    """Return the values that nodes read and none of them makes; weights are not among them."""
    made = {value for node in nodes for value in node.outputs}
    read = dict.fromkeys(value for node in nodes for value in node.inputs if value is not None and value not in made)
    return [value for value in read if value.const_value is None or value.is_graph_input()]


def last_before(first: ir.Node, known: Collection[ir.Value]) -> ir.Value | None:
    """Return the last known value that is made before a node, in the order of its graph."""
    graph, last = first.graph, None
    for node in itertools.takewhile(lambda one: one is not first, graph or ()):
        last = next((value for value in node.outputs if value in known), last)
    return last


def weights_of(nodes: Sequence[ir.Node]) -> dict[str, np.ndarray]:
    """Return the weights that nodes read, by name."""
    values = dict.fromkeys(value for node in nodes for value in node.inputs if value is not None)
    return {
        str(value.name): np.array(value.const_value.numpy())
        for value in values
        if value.const_value is not None and not value.is_graph_input()
    }


def cut(
    source: Path,
    nodes: Sequence[ir.Node],
    *,
    inputs: Mapping[str, np.ndarray],
    weights: Mapping[str, np.ndarray],
    output: ir.Value,
) -> onnx.ModelProto:
    """Return some nodes of a graph as a model that has everything it needs within.

    Args:
        source: The graph.
        nodes: Of it, in order.
        inputs: What they read from others, with the types and shapes that they have.
        weights: What they read of weights.
        output: What they make.
    """
    model = onnx.load(source, load_external_data=False)
    wanted = {str(node.outputs[0].name) for node in nodes}
    kept = [node for node in model.graph.node if node.output and node.output[0] in wanted]
    for node in kept:
        del node.metadata_props[:]
    values = [
        onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in inputs.items()
    ]
    tensors = [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = onnx.helper.make_graph(
        kept, "subgraph", values, [onnx.ValueInfoProto(name=str(output.name))], initializer=tensors
    )
    small = onnx.helper.make_model(graph, opset_imports=model.opset_import, functions=model.functions)
    small.ir_version = model.ir_version
    # An output without a type is no valid model; the graph has said which it is.
    del small.graph.output[:]
    kind = output.dtype.value if output.dtype is not None else onnx.TensorProto.FLOAT
    small.graph.output.append(onnx.helper.make_tensor_value_info(str(output.name), kind, None))
    return small


def use_memory(model: onnx.ModelProto) -> None:
    """Have a small graph put as many NaN into memory as its new input `USED` says, and free it, in every call.

    A fresh process has zeros in its memory. What reads more of it than was written is right by chance, until somebody
    has used that memory before: in the arena of the same session, which no other program reaches.
    """
    shape = onnx.helper.make_tensor_value_info(USED, onnx.TensorProto.INT64, [1])
    number = onnx.helper.make_tensor("value", onnx.TensorProto.FLOAT, [1], [math.nan])
    model.graph.node.extend(
        [
            onnx.helper.make_node("ConstantOfShape", [USED], ["used_memory"], name="use_memory", value=number),
            onnx.helper.make_node("ReduceMax", ["used_memory"], ["used_largest"], name="free_memory", keepdims=0),
        ]
    )
    model.graph.input.append(shape)
    model.graph.output.append(onnx.helper.make_tensor_value_info("used_largest", onnx.TensorProto.FLOAT, []))
    if not any(one.domain in ("", "ai.onnx") for one in model.opset_import):
        model.opset_import.append(onnx.helper.make_opsetid("", 18))
