"""Softmax between two matrix products -> MultiHeadAttention."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from pytest_sdperf.fusing.evaluation import distinct
from pytest_sdperf.fusing.fusion import Fusion, Refused
from pytest_sdperf.fusing.fusion_graph import MICROSOFT, FusionGraph
from pytest_sdperf.fusing.heads import merged, source_of

# A kernel's default scale is 1 / sqrt(head size); exporters round its square root to float32.
_SAME_SCALE = 1e-5
_HIDDEN = -1e4


@dataclass(frozen=True)
class Match:
    """An attention: its three sequences (B, S, heads x size), its result, and how it is computed."""

    query: ir.Value
    key: ir.Value
    value: ir.Value
    result: ir.Value
    heads: int
    size: int
    scale: float
    causal: bool


class Attention(Fusion):
    """Fused attention with separate query, key and value, causal or not."""

    op = f"{MICROSOFT}::MultiHeadAttention"

    def candidates(self, graph: FusionGraph) -> Iterable[ir.Node]:
        """Return every Softmax."""
        return graph.nodes("Softmax")

    def requires(self, node: ir.Node, graph: FusionGraph) -> Match:
        """Follow the scores up to query and key, the probabilities down to value and result."""
        scores, scale, mask = _scores(node, graph)
        product = _product_with_value(node, graph)
        left, right = scores.inputs
        assert left is not None
        assert right is not None
        query, query_factor, heads = source_of(left, "bnsh", graph)
        key, key_factor, key_heads = source_of(right, "bnhs", graph)
        operand = product.inputs[1]
        assert operand is not None
        value, value_factor, value_heads = source_of(operand, "bnsh", graph)
        if heads != key_heads or heads != value_heads:
            raise Refused(f"query, key and value have different heads: {heads}, {key_heads}, {value_heads}", scores)
        if value_factor != 1:
            raise Refused(f"its value is scaled by {value_factor:g}", product)
        return Match(
            query, key, value, merged(product.outputs[0], heads["n"], graph), heads["n"], heads["h"],
            scale * query_factor * key_factor, causal=_is_causal(mask, node, graph),
        )  # fmt: skip

    def apply(self, match: Match, graph: FusionGraph) -> ir.Node:
        """Put one node in place of the whole."""
        attributes: dict[str, int | float] = {"num_heads": match.heads}
        if not math.isclose(match.scale, match.size**-0.5, rel_tol=_SAME_SCALE):
            attributes["scale"] = match.scale
        if match.causal:
            attributes["unidirectional"] = 1
        last = match.result.producer()
        assert last is not None
        fused = graph.add(
            "MultiHeadAttention", [match.query, match.key, match.value], attributes,
            before=last, domain=MICROSOFT, like=match.result,
        )  # fmt: skip
        graph.replace(match.result, fused.outputs[0])
        return fused


def _scores(softmax: ir.Node, graph: FusionGraph) -> tuple[ir.Node, float, ir.Value | None]:
    """Return the matrix product of query and key, the factor behind it and what is added to it."""
    value = softmax.inputs[0]
    rank = len((graph.shapes.of(value) or ((),))[0]) if value is not None else 0
    axis = softmax.attributes["axis"].as_int() if "axis" in softmax.attributes else -1
    if rank not in (3, 4) or axis % rank != rank - 1:
        raise Refused("it is no softmax over the last axis of scores of rank 3 or 4", softmax)
    scale, mask = 1.0, None
    while True:
        node = graph.producer(value, "Cast", "Add", "Mul", "Div", "MatMul")
        if node is None:
            raise Refused("its scores are no matrix product", value.producer() if value is not None else softmax)
        first, second = node.inputs[0], node.inputs[-1]
        if node.op_type == "MatMul":
            return node, scale, mask
        if node.op_type == "Cast":
            value = first
        elif node.op_type == "Add":
            value, added = (first, second) if second is not None and graph.is_fixed(second) else (second, first)
            if added is None or not graph.is_fixed(added):
                raise Refused("a mask that depends on an input is added to its scores", node)
            if mask is not None:
                raise Refused("two masks are added to its scores", node)
            mask = added
        else:
            number = graph.scalar(second)
            if number is None or number <= 0:
                raise Refused("its scores are multiplied by something other than a positive constant", node)
            scale, value = (scale * number if node.op_type == "Mul" else scale / number), first


def _product_with_value(softmax: ir.Node, graph: FusionGraph) -> ir.Node:
    """Return the matrix product of probabilities and value."""
    value = softmax.outputs[0]
    guarded = [node for node in graph.users(value) if node.op_type == "Where"]
    if guarded:
        # Rows that are masked altogether give NaN and are set to zero: a causal mask leaves none.
        where = guarded[0]
        test = graph.producer(where.inputs[0], "IsNaN")
        if test is None or test.inputs[0] is not value or where.inputs[2] is not value or graph.scalar(where.inputs[1]):
            raise Refused("its probabilities are replaced by something other than zero", where)
        value = where.outputs[0]
    while (cast := graph.user(value, "Cast")) is not None:
        value = cast.outputs[0]
    product = graph.user(value, "MatMul")
    if product is None or product.inputs[0] is not value:
        users = graph.users(value)
        raise Refused("its probabilities are not multiplied with a value", users[0] if users else softmax)
    return product


def _is_causal(mask: ir.Value | None, softmax: ir.Node, graph: FusionGraph) -> bool:
    """Say whether a mask hides exactly what comes later; False where it hides nothing.

    Raises:
        Refused: It hides something else.
    """
    if mask is None:
        return False
    arrays = graph.shapes.values(mask)
    if arrays is None:
        raise Refused("the mask that is added to its scores is not known", mask.producer() or softmax)
    if all(not distinct(array).any() for array in arrays):
        return False
    for array in arrays:
        rows, columns = array.shape[-2:]
        hidden = np.triu(np.ones((rows, columns), dtype=bool), 1)
        if rows != columns or not np.all(np.where(hidden, array < _HIDDEN, array == 0)):
            raise Refused("the mask that is added to its scores is neither causal nor zero", mask.producer() or softmax)
    return True
