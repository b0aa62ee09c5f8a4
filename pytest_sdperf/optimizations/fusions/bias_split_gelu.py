"""GEGLU: one half of a linear layer's result times the Gelu of the other -> BiasSplitGelu."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from pytest_sdperf.fusing.fusion import Fusion, Refused
from pytest_sdperf.fusing.fusion_graph import MICROSOFT, FusionGraph
from pytest_sdperf.fusing.gelus import find_gelu
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
            raise Refused("its result is not multiplied with the other half", node)
        other = _half(graph.other(product, activated), graph)
        if other is None or other[0] is not half[0]:
            raise Refused("its result is not multiplied with the other half", product)
        if (other[1], half[1]) != (0, 1):
            raise Refused("the Gelu is applied to the first half, the operator applies it to the second", product)
        cuts = {graph.producer(value, "Split", "Slice") for value in (argument, graph.other(product, activated))}
        if not set(graph.users(half[0])) <= {*cuts, *_sizes_of(half[0], graph)}:
            raise Refused("what is split is read by others too", half[0].producer())
        whole, bias = bias_of(half[0], graph, shared=True)
        if bias is None:
            raise Refused("what is split is no sum of an activation and a bias", half[0].producer())
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
    value = node.inputs[0]
    if node.op_type == "Erf":
        scaled = graph.producer(value, "Div", "Mul")
        value = None if scaled is None else scaled.inputs[0]
    return value


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
    starts = None if len(node.inputs) < 2 or node.inputs[1] is None else graph.shapes.constant(node.inputs[1])
    steps = np.ones(1) if len(node.inputs) < 5 or node.inputs[4] is None else graph.shapes.constant(node.inputs[4])
    if starts is None or steps is None or starts.size != 1 or np.any(steps != 1):
        return None
    start = int(starts[0]) % shapes[0][-1]
    if start not in (0, shapes[0][-1] // 2):
        return None
    return whole, int(start > 0)


def _sizes_of(value: ir.Value, graph: FusionGraph) -> list[ir.Node]:
    """Return the nodes that read the shape of a value alone: they find out where to cut it."""
    return [node for node in graph.users(value) if node.op_type == "Shape"]
