"""Softmax between two matrix products -> MultiHeadAttention."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from pytest_sdperf.fusing.contents import Array, distinct
from pytest_sdperf.fusing.evaluation import HIDDEN
from pytest_sdperf.fusing.fusion import Fusion, RefusalError
from pytest_sdperf.fusing.fusion_graph import MICROSOFT, FusionGraph
from pytest_sdperf.fusing.heads import merged, source_of

# A kernel's default scale is 1 / sqrt(head size); exporters round its square root to float32.
_SAME_SCALE = 1e-5


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


@dataclass
class _Scores:
    """What a softmax is applied to: a product of query and key, times `scale`, plus a mask times `mask_scale`."""

    scale: float = 1.0
    mask: ir.Value | None = None
    mask_scale: float = 1.0


class Attention(Fusion):
    """Fused attention with separate query, key and value, causal or not."""

    op = f"{MICROSOFT}::MultiHeadAttention"

    def candidates(self, graph: FusionGraph) -> Iterable[ir.Node]:
        """Return every Softmax."""
        return graph.nodes("Softmax")

    def requires(self, node: ir.Node, graph: FusionGraph) -> Match:
        """Follow the scores up to query and key, the probabilities down to value and result."""
        scores, form = _scores(node, graph)
        product = _product_with_value(node, graph)
        left, right, operand = scores.inputs[0], scores.inputs[1], product.inputs[1]
        assert left is not None
        assert right is not None
        assert operand is not None
        query, query_factor, heads = source_of(left, "bnsh", graph)
        key, key_factor, key_heads = source_of(right, "bnhs", graph)
        value, value_factor, value_heads = source_of(operand, "bnsh", graph)
        if heads != key_heads or heads != value_heads:
            found = ", ".join(f"{each['n']} of {each['h']}" for each in (heads, key_heads, value_heads))
            raise RefusalError(f"query, key and value have different heads: {found}", scores)
        _check_sequences(query, key, value, graph, scores)
        if value_factor != 1:
            raise RefusalError(f"its value is scaled by {value_factor:g}", product)
        scale = form.scale * query_factor * key_factor
        if scale <= 0:
            raise RefusalError(f"its scale is {scale:g}, not positive", scores)
        causal = _is_causal(form, node, graph)
        result = merged(product.outputs[0], heads["n"], graph)
        return Match(query, key, value, result, heads["n"], heads["h"], scale, causal)

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


def _scores(softmax: ir.Node, graph: FusionGraph) -> tuple[ir.Node, _Scores]:
    """Follow the argument of a softmax up to the product of query and key."""
    value = softmax.inputs[0]
    assert value is not None
    shapes = graph.shapes.of(value)
    rank = len(shapes[0]) if shapes else 0
    axis = softmax.attributes["axis"].as_int() if "axis" in softmax.attributes else -1
    if rank not in (3, 4) or axis % rank != rank - 1:
        raise RefusalError("it is no softmax over the last axis of scores of rank 3 or 4", softmax)
    form = _Scores()
    while True:
        node = graph.producer(value, "Cast", "Add", "Mul", "Div", "MatMul")
        if node is None:
            raise RefusalError("its scores are no matrix product", graph.producer(value) or softmax)
        if node.op_type == "MatMul":
            return node, form
        value = _operand(node, form, graph)
        if not graph.shapes.same(value, node.outputs[0]):
            raise RefusalError("what its scores are combined with changes their shape", node)


def _operand(node: ir.Node, form: _Scores, graph: FusionGraph) -> ir.Value:
    """Return the operand of a node that leads to the product of query and key, and note the other one."""
    first, second = node.inputs[0], node.inputs[-1]
    assert first is not None
    assert second is not None
    if node.op_type == "Cast":
        return first
    if node.op_type == "Add":
        value, added = (first, second) if graph.is_fixed(second) else (second, first)
        if not graph.is_fixed(added):
            raise RefusalError("a mask that depends on an input is added to its scores", node)
        if form.mask is not None:
            raise RefusalError("two masks are added to its scores", node)
        form.mask, form.mask_scale = added, form.scale
        return value
    value, number = first, graph.scalar(second)
    if node.op_type == "Mul" and number is None:
        value, number = second, graph.scalar(first)
    if number is None or number <= 0:
        raise RefusalError("its scores are multiplied by something other than a positive constant", node)
    form.scale *= number if node.op_type == "Mul" else 1 / number
    return value


def _product_with_value(softmax: ir.Node, graph: FusionGraph) -> ir.Node:
    """Return the matrix product of probabilities and value."""
    value = softmax.outputs[0]
    wheres = [node for node in graph.users(value) if node.op_type == "Where"]
    if wheres:
        value = _guarded(value, wheres[0], graph)
    while (cast := graph.user(value, "Cast")) is not None:
        value = cast.outputs[0]
    product = graph.user(value, "MatMul")
    if product is None or product.inputs[0] is not value:
        users = graph.users(value)
        raise RefusalError("its probabilities are not multiplied with a value alone", users[0] if users else softmax)
    return product


def _guarded(value: ir.Value, where: ir.Node, graph: FusionGraph) -> ir.Value:
    """Return probabilities whose NaN are set to zero: those of rows that are masked altogether.

    A causal mask leaves no such row.
    """
    test = graph.producer(where.inputs[0], "IsNaN")
    guards = test is not None and test.inputs[0] is value and where.inputs[2] is value
    if not guards or graph.scalar(where.inputs[1]) != 0:
        raise RefusalError("its probabilities are replaced by something other than zero", where)
    others = [node for node in graph.users(value) if node not in (test, where)]
    if others or graph.is_output(value):
        raise RefusalError("its probabilities are read by others too", others[0] if others else where)
    return where.outputs[0]


def _check_sequences(query: ir.Value, key: ir.Value, value: ir.Value, graph: FusionGraph, scores: ir.Node) -> None:
    """Compare batch and length: a matrix product repeats a batch of one, the operator does not."""
    shapes = [graph.shapes.of(sequence) or () for sequence in (query, key, value)]
    for asked, keyed, valued in zip(*shapes, strict=True):
        if keyed != valued or asked[0] != keyed[0]:
            raise RefusalError(
                f"query, key and value are sequences of shapes {asked}, {keyed} and {valued}, which do not belong "
                "together",
                scores,
            )


def _is_causal(form: _Scores, softmax: ir.Node, graph: FusionGraph) -> bool:
    """Say whether a mask hides exactly what comes later; False where it hides nothing.

    Raises:
        RefusalError: It hides something else.
    """
    if form.mask is None:
        return False
    culprit = graph.producer(form.mask) or softmax
    arrays = graph.shapes.values(form.mask)
    if arrays is None:
        raise RefusalError("the mask that is added to its scores is not known", culprit)
    if all(not distinct(array).any() for array in arrays):
        return False
    if not all(_hides_later(array, form.mask_scale) for array in arrays):
        raise RefusalError("the mask that is added to its scores is neither causal nor zero", culprit)
    return True


def _hides_later(mask: Array, scale: float) -> bool:
    if mask.ndim < 2 or mask.shape[-1] != mask.shape[-2]:
        return False
    once = mask[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in mask.strides[:-2])]
    hidden = np.triu(np.ones(once.shape[-2:], dtype=bool), 1)
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.all(np.where(hidden, once * scale <= HIDDEN, once == 0)))
