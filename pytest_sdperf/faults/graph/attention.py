"""Faults of attention: the packed projections, the heads, the scale and the mask."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_sdperf.faults.fault import Fault, FaultStage, NowhereError
from pytest_sdperf.faults.graph.changes import array, bypass, find, put, set_float, set_int
from pytest_sdperf.faults.wanted import OTHER_TEXT_HALF, TEXT_ENCODER, TEXT_HALF, UNET, UNET_HALF, too_far

if TYPE_CHECKING:
    import onnx_ir as ir

    from pytest_sdperf.faults.graph.changes import Array

OP = "MultiHeadAttention"


def packed(model: ir.Model, *path: str) -> tuple[ir.Node, Array]:
    """Return the product of the first packed projection, and its weight as (rows, heads, 2 or 3, size)."""
    node = find(model, OP, path=path)[0]
    producers = [value.producer() for value in node.inputs if value is not None]
    reshape = next((one for one in producers if one is not None and one.op_type == "Reshape"), None)
    product = reshape.inputs[0].producer() if reshape is not None and reshape.inputs[0] is not None else None
    if reshape is None or product is None:
        raise NowhereError("the projections are not packed")
    heads, parts, size = (int(extent) for extent in array(reshape, 1)[-3:])
    return product, array(product, 1).reshape(-1, heads, parts, size)


def flat(weight: Array) -> Array:
    """Return a packed weight as the matrix that it is in the graph."""
    return weight.reshape(len(weight), -1)


def exchange_query_and_key(model: ir.Model) -> None:
    product, weight = packed(model, "attn1")
    put(model, product, 1, flat(weight[:, :, [1, 0, 2]]))


def exchange_key_and_value(model: ir.Model) -> None:
    product, weight = packed(model, "attn2")
    put(model, product, 1, flat(weight[:, :, [1, 0]]))


def pack_by_projection(model: ir.Model) -> None:
    product, weight = packed(model, "attn1")
    put(model, product, 1, flat(weight.transpose(0, 2, 1, 3)))


def rotate_heads_of_value(model: ir.Model) -> None:
    import numpy as np

    product, weight = packed(model, "attn1")
    moved = weight.copy()
    moved[:, :, 2] = np.roll(weight[:, :, 2], 1, axis=1)
    put(model, product, 1, flat(moved))


def halve_number_of_heads(model: ir.Model) -> None:
    node = find(model, OP)[0]
    heads = node.attributes["num_heads"].as_int()
    query = node.inputs[0].producer() if node.inputs[0] is not None else None
    if query is None or heads % 2:
        raise NowhereError(f"{OP} {node.name} has {heads} heads")
    width = max(array(query, index).size for index in range(len(query.inputs)) if _is_weight(query, index))
    set_int(node, "num_heads", heads // 2)
    set_float(node, "scale", float((width / heads) ** -0.5))


def _is_weight(node: ir.Node, index: int) -> bool:
    value = node.inputs[index]
    return value is not None and value.const_value is not None


def scale_wrongly(model: ir.Model) -> None:
    for node in find(model, OP, path=("attn1",)):
        _, weight = packed(model, "attn1")
        scale = node.attributes.get("scale")
        usual = float(weight.shape[-1] ** -0.5)
        set_float(node, "scale", 1.02 * (scale.as_float() if scale is not None else usual))


def skip(model: ir.Model) -> None:
    bypass(model, find(model, OP, path=("attn2",))[0], 0)


def drop_causal_flag(model: ir.Model) -> None:
    nodes = [node for node in find(model, OP) if "unidirectional" in node.attributes]
    if not nodes:
        raise NowhereError(f"no {OP} is causal")
    del nodes[len(nodes) // 2].attributes["unidirectional"]


def transpose_projection(model: ir.Model) -> None:
    product = find(model, "MatMul", path=("attn1.to_out",))[0]
    put(model, product, 1, array(product, 1).T)


_SEEN = too_far(UNET, "float16")
FAULTS = (
    Fault(
        "graph-query-and-key-exchanged",
        "The packed projection of a self-attention holds the key's columns where the query's belong.",
        FaultStage.GRAPH, exchange_query_and_key, _SEEN, UNET, UNET_HALF,
    ),
    Fault(
        "graph-key-and-value-exchanged",
        "The packed projection of a cross-attention holds the value's columns where the key's belong.",
        FaultStage.GRAPH, exchange_key_and_value, _SEEN, UNET, UNET_HALF,
    ),
    Fault(
        "graph-packed-by-projection",
        "Packed columns are ordered by projection, where the kernel reads them by head.",
        FaultStage.GRAPH, pack_by_projection, _SEEN, UNET, UNET_HALF,
    ),
    Fault(
        "graph-heads-rotated",
        "The values of a self-attention are packed one head off.",
        FaultStage.GRAPH, rotate_heads_of_value, _SEEN, UNET, UNET_HALF,
    ),
    Fault(
        "graph-number-of-heads-halved",
        "A fused attention has half as many heads, each twice as wide: what an optimizer does that guesses them.",
        FaultStage.GRAPH, halve_number_of_heads, too_far(TEXT_ENCODER, "float16"), TEXT_ENCODER, OTHER_TEXT_HALF,
    ),
    Fault(
        "graph-attention-skipped",
        "The result of a cross-attention is its query: the text is not looked at there.",
        FaultStage.GRAPH, skip, _SEEN, UNET, UNET_HALF,
    ),
    Fault(
        "graph-causal-mask-lost",
        "A fused attention of the text encoder has lost its causal mask.",
        FaultStage.GRAPH, drop_causal_flag, too_far(TEXT_ENCODER, "float16"), TEXT_ENCODER, TEXT_HALF,
    ),
    Fault(
        "graph-projection-transposed",
        "The square weight of an output projection is transposed.",
        FaultStage.GRAPH, transpose_projection, _SEEN, UNET, UNET_HALF,
    ),
)  # fmt: skip
