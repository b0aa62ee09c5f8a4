"""Bias of a linear layer and residual sum -> BiasAdd."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import onnx_ir as ir

from pytest_sdperf.fusing.fusion import Fusion, RefusalError
from pytest_sdperf.fusing.fusion_graph import MICROSOFT, FusionGraph
from pytest_sdperf.fusing.sums import bias_of


@dataclass(frozen=True)
class Match:
    """A residual sum: activation, bias and skip."""

    total: ir.Node
    activation: ir.Value
    bias: ir.Value
    skip: ir.Value


class BiasAdd(Fusion):
    """Bias and residual in one node, where no norm takes them in."""

    op = f"{MICROSOFT}::BiasAdd"

    def candidates(self, graph: FusionGraph) -> Iterable[ir.Node]:
        """Return every sum with the result of a feed-forward: a linear layer behind a GEGLU."""
        return [node for node in graph.nodes("Add") if _split(node, graph) is not None]

    def requires(self, node: ir.Node, graph: FusionGraph) -> Match:
        """Find activation and skip of the same shape (B, S, C)."""
        found = _split(node, graph)
        assert found is not None
        activation, bias, skip = found
        shape = graph.shapes.fixed(skip)
        if shape is None or len(shape) != 3 or not graph.shapes.same(activation, skip):
            raise RefusalError("it adds no sequences (B, S, C) of the same shape", node)
        return Match(node, activation, bias, skip)

    def apply(self, match: Match, graph: FusionGraph) -> ir.Node:
        """Put one node in place of the two sums."""
        result = match.total.outputs[0]
        fused = graph.add(
            "BiasAdd", [match.activation, match.bias, match.skip], before=match.total, domain=MICROSOFT, like=result
        )
        graph.replace(result, fused.outputs[0])
        return fused


def _split(node: ir.Node, graph: FusionGraph) -> tuple[ir.Value, ir.Value, ir.Value] | None:
    first, second = node.inputs
    for value, skip in ((first, second), (second, first)):
        if value is None or skip is None or graph.is_fixed(skip):
            continue
        activation, bias = bias_of(value, graph)
        product = graph.producer(activation, "MatMul")
        if bias is not None and product is not None and _after_gate(product, graph):
            return activation, bias, skip
    return None


def _after_gate(product: ir.Node, graph: FusionGraph) -> bool:
    """Say whether a linear layer's input is a GEGLU: fused already, or the product of a half and something."""
    source = product.inputs[0]
    if graph.producer(source, "BiasSplitGelu", domain=MICROSOFT) is not None:
        return True
    gate = graph.producer(source, "Mul")
    return gate is not None and any(graph.producer(value, "Split", "Slice") is not None for value in gate.inputs)
