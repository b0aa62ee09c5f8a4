"""Operators that ONNX Runtime's CUDA provider has no kernels for, expressed by those that exporters emitted before."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from pytest_sdperf.core.errors import BuildError
from pytest_sdperf.fusing.fusion_graph import FusionGraph

# The opset from which GroupNormalization scales channels; before it scaled groups, which no exporter emitted.
_BY_CHANNEL = 21


def decompose(graph: FusionGraph) -> None:
    """Replace GroupNormalization and Attention of ONNX in place.

    Raises:
        BuildError: A node is of a form that no exporter of diffusion models emits.
    """
    if graph.graph.opset_imports.get("", 0) >= _BY_CHANNEL:
        for node in graph.nodes("GroupNormalization"):
            _group_normalization(node, graph)
    for node in graph.nodes("Attention"):
        _attention(node, graph)


# ------------------------------------------------------------------------------------------------ GroupNormalization


def _group_normalization(node: ir.Node, graph: FusionGraph) -> None:
    """Split channels into groups, normalise these as instances, put them together, scale and shift."""
    image, scale, offset = node.inputs
    assert image is not None
    assert scale is not None
    assert offset is not None
    shapes = graph.shapes.of(image)
    if shapes is None:
        raise BuildError(f"the shape of what GroupNormalization {node.name} normalises is not known.")
    groups = node.attributes["num_groups"].as_int()
    dtype = _dtype(image)
    shape = graph.constant(np.array([0, groups, -1], dtype=np.int64), "shape")
    split = graph.add("Reshape", [image, shape], before=node).outputs[0]
    ones, zeros = (graph.constant(np.full(groups, number, dtype=dtype), "groups") for number in (1, 0))
    epsilon = node.attributes["epsilon"].as_float() if "epsilon" in node.attributes else 1e-5
    normal = graph.add("InstanceNormalization", [split, ones, zeros], {"epsilon": epsilon}, before=node).outputs[0]
    whole = graph.add("Shape", [image], before=node).outputs[0]
    joined = graph.add("Reshape", [normal, whole], before=node, like=image).outputs[0]
    factor, addend = (_by_channel(value, len(shapes[0]), graph, before=node) for value in (scale, offset))
    scaled = graph.add("Mul", [joined, factor], before=node, like=image).outputs[0]
    shifted = graph.add("Add", [scaled, addend], before=node, like=image).outputs[0]
    graph.replace(node.outputs[0], shifted)


def _by_channel(value: ir.Value, rank: int, graph: FusionGraph, *, before: ir.Node) -> ir.Value:
    """Return a vector (C,) in a shape that is broadcast along the second of `rank` axes."""
    shape = graph.shapes.fixed(value)
    if graph.is_weight(value, 1) and shape is not None and shape[0] is not None:
        sizes = (shape[0], *(1,) * (rank - 2))
        return graph.weight(value, "x".join(map(str, sizes)), sizes, lambda weight: weight.reshape(sizes))
    axes = graph.constant(np.arange(1, rank - 1, dtype=np.int64), "axes")
    return graph.add("Unsqueeze", [value, axes], before=before).outputs[0]


# --------------------------------------------------------------------------------------------------------- Attention


def _attention(node: ir.Node, graph: FusionGraph) -> None:
    """Q, K, V (B, N, S, H) -> softmax(Q K' x scale + mask) V, the scale split as the exporter splits it."""
    query, key, value = _operands(node, graph)
    mask = node.inputs[3] if len(node.inputs) > 3 else None
    dtype = _dtype(query)
    root = graph.constant(np.array(math.sqrt(_scale(node, query, graph)), dtype=dtype), "scale")
    left = graph.add("Mul", [query, root], before=node).outputs[0]
    turned = graph.add("Transpose", [key], {"perm": (0, 1, 3, 2)}, before=node).outputs[0]
    right = graph.add("Mul", [turned, root], before=node).outputs[0]
    scores = graph.add("MatMul", [left, right], before=node).outputs[0]
    if mask is not None:
        scores = graph.add("Add", [scores, _additive(mask, query, graph, before=node)], before=node).outputs[0]
    if _integer(node, "is_causal"):
        scores = graph.add("Add", [scores, _causal(scores, graph, before=node)], before=node).outputs[0]
    weights = graph.add("Softmax", [scores], {"axis": -1}, before=node).outputs[0]
    product = graph.add("MatMul", [weights, value], before=node).outputs[0]
    graph.replace(node.outputs[0], product)


def _operands(node: ir.Node, graph: FusionGraph) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Return query, key and value (B, N, S, H).

    Raises:
        BuildError: The node computes more than the product of these with a mask.
    """
    query, key, value = node.inputs[:3]
    assert query is not None
    assert key is not None
    assert value is not None
    odd = [name for name in ("softcap", "qk_matmul_output_mode") if _is_set(node, name)]
    if odd:
        raise BuildError(f"Attention {node.name} has {' and '.join(odd)}, which no kernel of CUDA computes.")
    if any(extra is not None for extra in node.inputs[4:]) or any(_is_read(value) for value in node.outputs[1:]):
        raise BuildError(f"Attention {node.name} keeps keys and values of earlier calls, which is not supported.")
    heads = [graph.shapes.fixed(operand) for operand in (query, key, value)]
    if any(shape is None or len(shape) != 4 for shape in heads) or len({shape[1] for shape in heads if shape}) != 1:
        raise BuildError(f"Attention {node.name} has operands of shapes {heads}; supported: (B, N, S, H), equal N.")
    return query, key, value


def _scale(node: ir.Node, query: ir.Value, graph: FusionGraph) -> float:
    if "scale" in node.attributes:
        scale = node.attributes["scale"].as_float()
    else:
        size = (graph.shapes.fixed(query) or (None,))[-1]
        scale = size**-0.5 if size else 0.0
    if scale <= 0:
        raise BuildError(f"Attention {node.name} has no positive scale, and heads of no fixed size.")
    return scale


def _additive(mask: ir.Value, query: ir.Value, graph: FusionGraph, *, before: ir.Node) -> ir.Value:
    """Return a mask that is added: 0 where a boolean one lets through, minus infinity elsewhere."""
    if mask.dtype != ir.DataType.BOOL:
        return mask
    zero, hidden = (graph.constant(np.array(number, dtype=_dtype(query)), "mask") for number in (0, -np.inf))
    return graph.add("Where", [mask, zero, hidden], before=before).outputs[0]


def _causal(scores: ir.Value, graph: FusionGraph, *, before: ir.Node) -> ir.Value:
    shape = graph.add("Shape", [scores], {"start": -2}, before=before).outputs[0]
    hidden = graph.constant(np.array(-np.inf, dtype=_dtype(scores)), "mask")
    square = graph.add("Expand", [hidden, shape], before=before).outputs[0]
    one = graph.constant(np.array(1, dtype=np.int64), "one")
    return graph.add("Trilu", [square, one], {"upper": 1}, before=before).outputs[0]


def _dtype(value: ir.Value) -> np.dtype[np.generic]:
    return (value.dtype or ir.DataType.FLOAT).numpy()


def _integer(node: ir.Node, name: str) -> int:
    return node.attributes[name].as_int() if name in node.attributes else 0


def _is_set(node: ir.Node, name: str) -> bool:
    return name in node.attributes and bool(node.attributes[name].value)


def _is_read(value: ir.Value) -> bool:
    return bool(value.uses()) or value.is_graph_output()
