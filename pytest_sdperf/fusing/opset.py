"""Opsets: operators newer than the kernels of ONNX Runtime's CUDA provider, expressed by older ones."""

from __future__ import annotations

import math

import numpy as np
import onnx
import onnx_ir as ir

from pytest_sdperf.errors import BuildError
from pytest_sdperf.fusing.fusion_graph import FusionGraph

NEWEST = 20
"""The newest opset whose operators have kernels in ONNX Runtime's CUDA provider, release by release."""


def lower(graph: FusionGraph) -> None:
    """Replace GroupNormalization and Attention of ONNX by what exporters emitted before these existed."""
    for node in graph.nodes("GroupNormalization"):
        _group_normalization(node, graph)
    for node in graph.nodes("Attention"):
        _attention(node, graph)


def declare(model: ir.Model) -> None:
    """Declare the newest opset that is safe, if the model declares a later one.

    Raises:
        BuildError: An operator is not the same there.
    """
    if model.opset_imports.get("", 0) <= NEWEST:
        return
    for node in model.graph:
        if node.domain == "":
            _check(node)
    model.opset_imports[""] = NEWEST
    model.graph.opset_imports[""] = NEWEST


def _check(node: ir.Node) -> None:
    try:
        schema = onnx.defs.get_schema(node.op_type, NEWEST, "")
    except onnx.defs.SchemaError as error:
        raise BuildError(f"operator {node.op_type} of node {node.name} does not exist in opset {NEWEST}") from error
    unknown = sorted(set(node.attributes) - set(schema.attributes))
    if unknown or len(node.inputs) > schema.max_input:
        what = f"attributes {', '.join(unknown)}" if unknown else f"{len(node.inputs)} inputs"
        raise BuildError(f"operator {node.op_type} of node {node.name} has {what}, not known in opset {NEWEST}")


def _group_normalization(node: ir.Node, graph: FusionGraph) -> None:
    image, scale, offset = node.inputs
    assert image is not None
    assert scale is not None
    assert offset is not None
    groups = node.attributes["num_groups"].as_int()
    rank = len((graph.shapes.of(image) or ((0,) * 4,))[0])
    dtype = (image.dtype or ir.DataType.FLOAT).numpy()
    split = graph.add(
        "Reshape", [image, graph.constant(np.array([0, groups, -1], dtype=np.int64), "shape")], before=node
    )
    ones, zeros = (graph.constant(np.full(groups, number, dtype=dtype), "groups") for number in (1, 0))
    epsilon = node.attributes["epsilon"].as_float() if "epsilon" in node.attributes else 1e-5
    normal = graph.add("InstanceNormalization", [split.outputs[0], ones, zeros], {"epsilon": epsilon}, before=node)
    shape = graph.add("Shape", [image], before=node)
    shape.outputs[0].dtype = ir.DataType.INT64
    joined = graph.add("Reshape", [normal.outputs[0], shape.outputs[0]], before=node, like=image)
    weights = [_by_channel(value, rank, graph, node) for value in (scale, offset)]
    scaled = graph.add("Mul", [joined.outputs[0], weights[0]], before=node, like=image)
    shifted = graph.add("Add", [scaled.outputs[0], weights[1]], before=node, like=image)
    graph.replace(node.outputs[0], shifted.outputs[0])


def _by_channel(value: ir.Value, rank: int, graph: FusionGraph, node: ir.Node) -> ir.Value:
    shape = graph.shapes.fixed(value)
    if graph.is_weight(value, 1) and shape is not None and shape[0] is not None:
        sizes = (shape[0], *(1,) * (rank - 2))
        return graph.weight(value, "x".join(map(str, sizes)), sizes, lambda w: w.reshape(sizes))
    axes = graph.constant(np.arange(1, rank - 1, dtype=np.int64), "axes")
    return graph.add("Unsqueeze", [value, axes], before=node).outputs[0]


def _attention(node: ir.Node, graph: FusionGraph) -> None:
    """Q, K, V (B, N, S, H) -> softmax(Q K' x scale + mask) V, the scale split as the exporter splits it."""
    query, key, value, *rest = node.inputs
    shapes = None if query is None else graph.shapes.fixed(query)
    odd = [
        name for name in ("softcap", "qk_matmul_output_mode") if name in node.attributes and node.attributes[name].value
    ]
    if query is None or key is None or value is None or shapes is None or len(shapes) != 4 or shapes[3] is None or odd:
        return  # left as it is: the fusion of attention says so
    if any(extra is not None for extra in rest[1:]) or len([v for v in node.outputs if v.name and v.uses()]) > 1:
        return
    scale = node.attributes["scale"].as_float() if "scale" in node.attributes else shapes[3] ** -0.5
    dtype = (query.dtype or ir.DataType.FLOAT).numpy()
    root = graph.constant(np.array(math.sqrt(scale), dtype=dtype), "scale")
    left = graph.add("Mul", [query, root], before=node)
    turned = graph.add("Transpose", [key], {"perm": (0, 1, 3, 2)}, before=node)
    right = graph.add("Mul", [turned.outputs[0], root], before=node)
    scores = graph.add("MatMul", [left.outputs[0], right.outputs[0]], before=node).outputs[0]
    mask = rest[0] if rest else None
    if mask is not None:
        scores = graph.add("Add", [scores, _additive(mask, dtype, graph, node)], before=node, like=scores).outputs[0]
    if "is_causal" in node.attributes and node.attributes["is_causal"].as_int():
        scores = graph.add("Add", [scores, _causal(scores, dtype, graph, node)], before=node, like=scores).outputs[0]
    weights = graph.add("Softmax", [scores], {"axis": -1}, before=node)
    product = graph.add("MatMul", [weights.outputs[0], value], before=node)
    graph.replace(node.outputs[0], product.outputs[0])


def _additive(mask: ir.Value, dtype: np.dtype, graph: FusionGraph, node: ir.Node) -> ir.Value:  # type: ignore[type-arg]
    if mask.dtype != ir.DataType.BOOL:
        return mask
    zero, hidden = (graph.constant(np.array(number, dtype=dtype), "mask") for number in (0, -np.inf))
    where = graph.add("Where", [mask, zero, hidden], before=node)
    where.outputs[0].dtype = zero.dtype
    return where.outputs[0]


def _causal(scores: ir.Value, dtype: np.dtype, graph: FusionGraph, node: ir.Node) -> ir.Value:  # type: ignore[type-arg]
    shape = graph.add("Shape", [scores], {"start": -2}, before=node)
    shape.outputs[0].dtype = ir.DataType.INT64
    hidden = graph.constant(np.array(-np.inf, dtype=dtype), "mask")
    square = graph.add("Expand", [hidden, shape.outputs[0]], before=node)
    one = graph.constant(np.array(1, dtype=np.int64), "one")
    return graph.add("Trilu", [square.outputs[0], one], {"upper": 1}, before=node).outputs[0]
