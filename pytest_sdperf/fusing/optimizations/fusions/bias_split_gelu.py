"""GEGLU: one half of a linear layer's result times the Gelu of the other -> BiasSplitGelu."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import onnx_ir as ir

from pytest_sdperf.fusing.fusion import Fusion, RefusalError
from pytest_sdperf.fusing.fusion_graph import MICROSOFT, FusionGraph
from pytest_sdperf.fusing.gelus import find_argument, find_gelu
from pytest_sdperf.fusing.sums import bias_of


@dataclass(frozen=True)
class Match:
    """The argument without its bias, the bias (2 x C,), and the product (B, S, C)."""

    activation: ir.Value
    bias: ir.Value
    result: ir.Value


class BiasSplitGelu(Fusion):
    """Bias, split, Gelu and product in one node."""

    op = f"{MICROSOFT}::BiasSplitGelu"

    def candidates(self, graph: FusionGraph) -> Iterable[ir.Node]:
        """Return every Gelu, fused already or not, that is applied to a part of something."""
        found = [*graph.nodes("Gelu", domain=MICROSOFT), *graph.nodes("Gelu"), *graph.nodes("Erf")]
        return [node for node in found if _half(_argument(node, graph), graph) is not None]

    def requires(self, node: ir.Node, graph: FusionGraph) -> Match:
        """Find both halves, in their order, and the bias of what they are halves of."""
        argument, activated = _argument(node, graph), node.outputs[0]
        if node.domain != MICROSOFT:
            activated = find_gelu(node, graph).result
        half = _half(argument, graph)
        product = graph.user(activated, "Mul")
        if product is None or half is None:
            raise RefusalError("its result is not multiplied with the other half alone", node)
        gate = graph.other(product, activated)
        other = _half(gate, graph)
        if other is None or other[0] is not half[0]:
            raise RefusalError("its result is not multiplied with the other half alone", product)
        if (other[1], half[1]) != (0, 1):
            raise RefusalError("the Gelu is applied to the first half, the operator applies it to the second", product)
        cuts = [graph.producer(value, "Split", "Slice") for value in (argument, gate)]
        others = [user for user in graph.users(half[0]) if user not in cuts and user.op_type != "Shape"]
        if others or graph.is_output(half[0]):
            raise RefusalError("what is split is read by others too", others[0] if others else product)
        whole, bias = bias_of(half[0], graph, shared=True)
        if bias is None:
            raise RefusalError("what is split is no sum of an activation and a bias", graph.producer(half[0]) or node)
        if len(graph.shapes.fixed(whole) or ()) != 3:
            raise RefusalError("what is split is no sequence (B, S, 2 x C)", graph.producer(half[0]))
        return Match(whole, bias, product.outputs[0])

    def apply(self, match: Match, graph: FusionGraph) -> ir.Node:
        """Put one node in place of the whole."""
        last = match.result.producer()
        assert last is not None
        fused = graph.add(
            "BiasSplitGelu", [match.activation, match.bias], before=last, domain=MICROSOFT, like=match.result
        )
        graph.replace(match.result, fused.outputs[0])
        return fused


def _argument(node: ir.Node, graph: FusionGraph) -> ir.Value | None:
    return find_argument(node, graph) if node.op_type == "Erf" else node.inputs[0]


def _half(value: ir.Value | None, graph: FusionGraph) -> tuple[ir.Value, int] | None:
    """Return what a value is the first (0) or second (1) half of, along the last axis; None if it is no half."""
    node = graph.producer(value, "Split", "Slice")
    whole = None if node is None else node.inputs[0]
    if node is None or whole is None or value is None:
        return None
    shapes, parts = graph.shapes.of(whole), graph.shapes.of(value)
    if shapes is None or parts is None:
        return None
    if any((*shape[:-1], shape[-1] // 2) != part or shape[-1] % 2 for shape, part in zip(shapes, parts, strict=True)):
        return None
    if node.op_type == "Split":
        return (whole, node.outputs.index(value)) if len(node.outputs) == 2 else None
    start = _start(node, shapes[0][-1], graph)
    return None if start is None else (whole, start)


def _start(cut: ir.Node, size: int, graph: FusionGraph) -> int | None:
    """Return the half at which a Slice begins: 0 or 1."""
    starts = None if cut.inputs[1] is None else graph.shapes.constant(cut.inputs[1])
    steps = cut.inputs[4] if len(cut.inputs) > 4 else None
    if starts is None or starts.size != 1 or (steps is not None and graph.scalar(steps) != 1):
        return None
    return {0: 0, size // 2: 1}.get(int(starts[0]) % size)
