"""LayerNormalization of a residual sum -> SkipLayerNormalization, which also returns the sum."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import onnx_ir as ir

from pytest_sdperf.fusing.fusion import Fusion, RefusalError
from pytest_sdperf.fusing.fusion_graph import MICROSOFT, FusionGraph
from pytest_sdperf.fusing.sums import bias_of, is_channel_weight


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
        return [node for node in graph.nodes("LayerNormalization") if _sum(node, graph) is not None]

    def requires(self, node: ir.Node, graph: FusionGraph) -> Match:
        """Find two activations of the same shape (B, S, C), and the bias of one of them."""
        add = _sum(node, graph)
        if add is None:
            raise RefusalError("another norm has taken in the sum that it normalises", node)
        total = add.outputs[0]
        shape = graph.shapes.fixed(total)
        axis = node.attributes["axis"].as_int() if "axis" in node.attributes else -1
        if shape is None or len(shape) != 3 or axis not in (-1, 2):
            raise RefusalError("it normalises no sequence (B, S, C) over its last axis", node)
        weights = [value for value in node.inputs[1:] if value is not None]
        if not weights or not all(is_channel_weight(value, total, graph) for value in weights):
            raise RefusalError("its scale and offset are no weights (C,)", node)
        if any(value.uses() or graph.is_output(value) for value in node.outputs[1:]):
            raise RefusalError("its mean or deviation is read", node)
        first, second = add.inputs
        assert first is not None
        assert second is not None
        if not graph.shapes.same(first, second):
            raise RefusalError("the two parts of the sum that it normalises differ in shape", add)
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
        graph.replace(norm.outputs[0], fused.outputs[0])
        if not match.total.uses() and not graph.is_output(match.total):
            fused.resize_outputs(1)
            return fused
        for unread in fused.outputs[1:3]:
            unread.name = ""
        graph.import_graph(fused.outputs[3], match.total)
        graph.replace(match.total, fused.outputs[3])
        return fused


def _sum(norm: ir.Node, graph: FusionGraph) -> ir.Node | None:
    """Return the sum of activations that a norm normalises."""
    add = graph.producer(norm.inputs[0], "Add")
    return None if add is None or any(graph.is_fixed(value) for value in add.inputs if value is not None) else add
