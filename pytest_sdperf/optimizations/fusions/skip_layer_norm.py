"""LayerNormalization of a residual sum -> SkipLayerNormalization, which also returns the sum."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import onnx_ir as ir

from pytest_sdperf.fusing.fusion import Fusion, Refused
from pytest_sdperf.fusing.fusion_graph import MICROSOFT, FusionGraph
from pytest_sdperf.fusing.sums import bias_of


@dataclass(frozen=True)
class Match:
    """A norm, the sum that it normalises, the two activations in it, and the bias of the first."""

    norm: ir.Node
    total: ir.Value
    activation: ir.Value
    skip: ir.Value
    bias: ir.Value | None


class SkipLayerNormalization(Fusion):
    """Residual sum, bias and LayerNormalization in one node."""

    op = f"{MICROSOFT}::SkipLayerNormalization"

    def candidates(self, graph: FusionGraph) -> Iterable[ir.Node]:
        """Return every LayerNormalization of a sum of activations; one of anything else stays as it is."""
        return [node for node in graph.nodes("LayerNormalization") if _is_sum(node, graph)]

    def requires(self, node: ir.Node, graph: FusionGraph) -> Match:
        """Find two activations of the same shape (B, S, C), and the bias of one of them."""
        total = node.inputs[0]
        add = graph.producer(total, "Add")
        assert total is not None
        assert add is not None
        shape = graph.shapes.fixed(total)
        axis = node.attributes["axis"].as_int() if "axis" in node.attributes else -1
        if shape is None or len(shape) != 3 or axis not in (-1, 2):
            raise Refused("it normalises no sequence (B, S, C) over its last axis", node)
        if len(node.inputs) < 2 or not all(graph.is_weight(value, 1) for value in node.inputs[1:]):
            raise Refused("its scale and bias are no weights of rank 1", node)
        if any(value.uses() for value in node.outputs[1:]):
            raise Refused("its mean or variance is read", node)
        first, second = add.inputs
        assert first is not None
        assert second is not None
        if not graph.shapes.same(first, second):
            raise Refused("the two parts of the sum that it normalises differ in shape", add)
        for activation, skip in ((first, second), (second, first)):
            inner, bias = bias_of(activation, graph)
            if bias is not None:
                return Match(node, total, inner, skip, bias)
        return Match(node, total, first, second, None)

    def apply(self, match: Match, graph: FusionGraph) -> ir.Node:
        """Put one node in place of norm and sum."""
        norm = match.norm
        scale, offset = norm.inputs[1], norm.inputs[2] if len(norm.inputs) > 2 else None
        epsilon = norm.attributes["epsilon"].as_float() if "epsilon" in norm.attributes else 1e-5
        inputs = [match.activation, match.skip, scale, offset]
        fused = graph.add(
            "SkipLayerNormalization", [*inputs, match.bias] if match.bias is not None else inputs,
            {"epsilon": epsilon}, before=norm, domain=MICROSOFT, outputs=4, like=norm.outputs[0],
        )  # fmt: skip
        total = fused.outputs[3]
        for unread in fused.outputs[1:3]:
            unread.name = ""
        graph.adopt(total, match.total)
        graph.replace(norm.outputs[0], fused.outputs[0])
        if match.total.uses() or graph.is_output(match.total):
            graph.replace(match.total, total)
        else:
            fused.resize_outputs(1)
        return fused


def _is_sum(norm: ir.Node, graph: FusionGraph) -> bool:
    add = graph.producer(norm.inputs[0], "Add")
    return add is not None and not any(graph.is_fixed(value) for value in add.inputs if value is not None)
