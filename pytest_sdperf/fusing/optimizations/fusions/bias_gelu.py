"""Gelu of a linear layer's result -> BiasGelu."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import onnx_ir as ir

from pytest_sdperf.fusing.fusion import Fusion, RefusalError
from pytest_sdperf.fusing.fusion_graph import MICROSOFT, FusionGraph
from pytest_sdperf.fusing.sums import bias_of


@dataclass(frozen=True)
class Match:
    """A Gelu, and the activation and bias in its argument."""

    gelu: ir.Node
    activation: ir.Value
    bias: ir.Value


class BiasGelu(Fusion):
    """Bias and Gelu in one node."""

    op = f"{MICROSOFT}::BiasGelu"

    def candidates(self, graph: FusionGraph) -> Iterable[ir.Node]:
        """Return every Gelu of a sum; that of a GEGLU has one half of something as its argument."""
        return [
            node for node in graph.nodes("Gelu", domain=MICROSOFT) if graph.producer(node.inputs[0], "Add") is not None
        ]

    def requires(self, node: ir.Node, graph: FusionGraph) -> Match:
        """Find the bias."""
        assert node.inputs[0] is not None
        activation, bias = bias_of(node.inputs[0], graph)
        if bias is None:
            raise RefusalError("its argument is no sum of an activation and a bias that nobody else reads", node)
        return Match(node, activation, bias)

    def apply(self, match: Match, graph: FusionGraph) -> ir.Node:
        """Put one node in place of the two."""
        result = match.gelu.outputs[0]
        fused = graph.add("BiasGelu", [match.activation, match.bias], before=match.gelu, domain=MICROSOFT, like=result)
        graph.replace(result, fused.outputs[0])
        return fused
