"""Make the graphs of different exporters alike before anything is fused, and leave nothing behind afterwards."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from onnx_ir.passes import common as passes

from pytest_sdperf.fusing.fusion_graph import PATH, FusionGraph

_LARGEST_CONSTANT = 64


def unify(model: ir.Model) -> None:
    """Inline functions, turn constant nodes into initializers, and name every node, before shapes are looked at."""
    if model.functions:
        passes.InlinePass()(model)
        model.functions.clear()
    passes.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
    for node in model.graph.all_nodes():
        # Whatever is said about a node names it.
        node.name = node.name or next((value.name for value in node.outputs if value.name), node.op_type)


def simplify(graph: FusionGraph) -> None:
    """Remove what computes nothing: constants worked out, views of weights, factors of 1, casts that are not needed."""
    casts: dict[tuple[ir.Value, int], ir.Value] = {}
    for node in list(graph.graph):
        if node.graph is None or node.domain != "" or _is_repeated(node, casts, graph):
            continue
        if not _fold_constant(node, graph) and not _fold_view(node, graph):
            _remove_neutral(node, graph)


def finish(model: ir.Model) -> None:
    """Remove what is no longer used and sort the nodes."""
    passes.RemoveUnusedNodesPass()(model)
    model.graph.sort()
    for node in model.graph:
        node.metadata_props.pop(PATH, None)


def _is_repeated(node: ir.Node, casts: dict[tuple[ir.Value, int], ir.Value], graph: FusionGraph) -> bool:
    """Let those who read a cast read an earlier one that is equal: converters put one before every reader."""
    source = node.inputs[0] if node.op_type == "Cast" else None
    if source is None or len(node.attributes) > 1:
        return False
    key = (source, node.attributes["to"].as_int())
    first = casts.get(key)
    producer = first.producer() if first is not None else None
    if first is None or producer is None or producer.graph is None:  # none yet, or it was not needed and is gone
        casts[key] = node.outputs[0]
        return False
    if graph.is_output(node.outputs[0]):
        return False
    graph.replace(node.outputs[0], first)
    return True


def _fold_constant(node: ir.Node, graph: FusionGraph) -> bool:
    value = node.outputs[0]
    if len(node.outputs) != 1 or graph.is_output(value):
        return False
    array = graph.shapes.constant(value)
    if array is None or array.size > _LARGEST_CONSTANT:
        return False
    graph.replace(value, graph.constant(np.ascontiguousarray(array).reshape(array.shape), "constant"))
    return True


def _fold_view(node: ir.Node, graph: FusionGraph) -> bool:
    """Turn a transposed or reshaped weight into a weight."""
    source, result = node.inputs[0] if node.inputs else None, node.outputs[0]
    if node.op_type not in ("Transpose", "Reshape", "Unsqueeze", "Squeeze") or source is None:
        return False
    shape = graph.shapes.fixed(result)
    if not graph.is_weight(source) or shape is None or None in shape or graph.is_output(result):
        return False
    sizes = tuple(size for size in shape if size is not None)
    if node.op_type == "Transpose":
        perm = tuple(node.attributes["perm"].as_ints()) if "perm" in node.attributes else tuple(range(len(sizes)))[::-1]
        folded = graph.weight(source, "t" + "".join(map(str, perm)), sizes, lambda weight: np.transpose(weight, perm))
    else:
        folded = graph.weight(source, "x".join(map(str, sizes)), sizes, lambda weight: weight.reshape(sizes))
    # A mask stays known as one.
    graph.shapes.copy(result, folded, contents=True)
    graph.replace(result, folded)
    return True


def _remove_neutral(node: ir.Node, graph: FusionGraph) -> None:
    kept = _kept(node, graph)
    if kept is not None and not graph.is_output(node.outputs[0]):
        graph.replace(node.outputs[0], kept)


def _kept(node: ir.Node, graph: FusionGraph) -> ir.Value | None:
    """Return the input that a node passes on unchanged; None if it changes something."""
    first, result = node.inputs[0] if node.inputs else None, node.outputs[0]
    if first is None:
        return None
    if node.op_type == "Identity":
        return first
    if node.op_type == "Dropout" and (len(node.inputs) < 3 or node.inputs[2] is None):
        return first if not any(value.uses() or graph.is_output(value) for value in node.outputs[1:]) else None
    if node.op_type == "Cast" and first.dtype is not None and int(first.dtype) == node.attributes["to"].as_int():
        return first
    if node.op_type in ("Mul", "Div"):
        second = node.inputs[1]
        if _is_one(second, graph) and graph.shapes.same(first, result):
            return first
        if node.op_type == "Mul" and second is not None and _is_one(first, graph):
            return second if graph.shapes.same(second, result) else None
    return None


def _is_one(value: ir.Value | None, graph: FusionGraph) -> bool:
    """Say whether a value is the number 1; a weight of several channels that happen to be 1 stays the weight it is."""
    if value is None or graph.scalar(value) != 1:
        return False
    return not graph.is_weight(value) or value.const_value is None or value.const_value.size == 1
