"""x * 0.5 * (1 + erf(x / sqrt(2))), however it is associated, or ONNX's own Gelu -> Gelu."""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir

from pytest_sdperf.fusing.fusion import Fusion
from pytest_sdperf.fusing.fusion_graph import MICROSOFT, FusionGraph
from pytest_sdperf.fusing.gelus import Activation, find_gelu


class Gelu(Fusion):
    """The exact Gelu, by the error function."""

    op = f"{MICROSOFT}::Gelu"

    def candidates(self, graph: FusionGraph) -> Iterable[ir.Node]:
        """Return every error function and every Gelu of ONNX."""
        return graph.nodes("Erf", "Gelu")

    def requires(self, node: ir.Node, graph: FusionGraph) -> Activation:
        """Find the source of the error function and the product that ends the activation."""
        return find_gelu(node, graph)

    def apply(self, match: Activation, graph: FusionGraph) -> ir.Node:
        """Put one node in place of the whole."""
        last = match.result.producer()
        assert last is not None
        fused = graph.add("Gelu", [match.source], before=last, domain=MICROSOFT, like=match.result)
        graph.replace(match.result, fused.outputs[0])
        return fused
