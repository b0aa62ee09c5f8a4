"""x * sigmoid(1.702 x) -> QuickGelu."""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir

from pytest_sdperf.fusing.fusion import Fusion, RefusalError
from pytest_sdperf.fusing.fusion_graph import MICROSOFT, FusionGraph
from pytest_sdperf.fusing.gelus import Activation, is_number

_ALPHA = 1.702


class QuickGelu(Fusion):
    """The Gelu of CLIP-L."""

    op = f"{MICROSOFT}::QuickGelu"

    def candidates(self, graph: FusionGraph) -> Iterable[ir.Node]:
        """Return every Sigmoid of something multiplied by 1.702; the others are SiLUs."""
        return [node for node in graph.nodes("Sigmoid") if _source(node, graph) is not None]

    def requires(self, node: ir.Node, graph: FusionGraph) -> Activation:
        """Find the product with the argument."""
        source = _source(node, graph)
        product = graph.user(node.outputs[0], "Mul")
        if source is None or product is None or graph.other(product, node.outputs[0]) is not source:
            raise RefusalError("it is not multiplied with its argument alone", product or node)
        if not graph.shapes.same(source, product.outputs[0]):
            raise RefusalError("its constant changes the shape of its argument", product)
        return Activation(source, product.outputs[0])

    def apply(self, match: Activation, graph: FusionGraph) -> ir.Node:
        """Put one node in place of the three."""
        last = match.result.producer()
        assert last is not None
        fused = graph.add(
            "QuickGelu", [match.source], {"alpha": _ALPHA}, before=last, domain=MICROSOFT, like=match.result
        )
        graph.replace(match.result, fused.outputs[0])
        return fused


def _source(sigmoid: ir.Node, graph: FusionGraph) -> ir.Value | None:
    scaled = graph.producer(sigmoid.inputs[0], "Mul")
    if scaled is None:
        return None
    first, second = scaled.inputs
    if is_number(second, _ALPHA, graph):
        return first
    return second if is_number(first, _ALPHA, graph) else None
