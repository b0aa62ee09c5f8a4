"""GroupNorm of a sum -> SkipGroupNorm, which takes in the bias of a convolution and also returns the sum."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import onnx_ir as ir

from pytest_sdperf.fusing.fusion import Fusion, RefusalError
from pytest_sdperf.fusing.fusion_graph import MICROSOFT, FusionGraph
from pytest_sdperf.fusing.layout import NHWC_TO_NCHW, is_transpose, nhwc_of, to_nchw, to_nhwc


@dataclass(frozen=True)
class Match:
    """A norm, the sum (N, C, H, W) that it normalises, and the two activations in it.

    Attributes:
        norm: The GroupNorm.
        total: The sum.
        activation: An image (N, C, H, W).
        skip: Another one, or a vector (N, C) for all places of an image.
    """

    norm: ir.Node
    total: ir.Value
    activation: ir.Value
    skip: ir.Value


class SkipGroupNorm(Fusion):
    """Sum, GroupNorm and activation in one node."""

    op = f"{MICROSOFT}::SkipGroupNorm"

    def candidates(self, graph: FusionGraph) -> Iterable[ir.Node]:
        """Return every GroupNorm of a sum of activations."""
        return [node for node in graph.nodes("GroupNorm", domain=MICROSOFT) if _sum(node, graph) is not None]

    def requires(self, node: ir.Node, graph: FusionGraph) -> Match:
        """Find two images of the same shape, or an image and a vector of its channels."""
        add = _sum(node, graph)
        if add is None:
            raise RefusalError("another norm has taken in the sum that it normalises", node)
        total = add.outputs[0]
        first, second = add.inputs
        assert first is not None
        assert second is not None
        for activation, skip in ((first, second), (second, first)):
            if not graph.shapes.same(activation, total):
                continue
            if graph.shapes.same(skip, total):
                # The bias of a convolution can move into the norm: take that operand as the activation.
                other = _biased(skip, graph) is not None and _biased(activation, graph) is None
                return Match(node, total, skip, activation) if other else Match(node, total, activation, skip)
            vector = _vector(skip, total, graph)
            if vector is not None:
                return Match(node, total, activation, vector)
        raise RefusalError("the sum that it normalises is one of shapes that the operator does not add", add)

    def apply(self, match: Match, graph: FusionGraph) -> ir.Node:
        """Put one node in place of norm and sum."""
        norm = match.norm
        vector = len(graph.shapes.fixed(match.skip) or ()) == 2
        image = to_nhwc(match.activation, graph, before=norm)
        skip = match.skip if vector else to_nhwc(match.skip, graph, before=norm)
        inputs = [image, norm.inputs[1], norm.inputs[2], skip]
        conv = None if match.activation is match.skip else _biased(match.activation, graph)
        if conv is not None:
            inputs.append(conv.inputs[2])
            conv.resize_inputs(2)
        fused = graph.add(
            "SkipGroupNorm", inputs, norm.attributes, before=norm, domain=MICROSOFT, outputs=2, like=norm.outputs[0]
        )
        graph.replace(norm.outputs[0], fused.outputs[0])
        if not match.total.uses() and not graph.is_output(match.total):
            fused.resize_outputs(1)
            return fused
        total = fused.outputs[1]
        graph.adopt(total, fused.outputs[0])
        first = next(iter(graph.users(match.total)), fused)
        graph.replace(match.total, to_nchw(total, graph, before=first))
        return fused


def _sum(norm: ir.Node, graph: FusionGraph) -> ir.Node | None:
    assert norm.inputs[0] is not None
    image = nhwc_of(norm.inputs[0], graph)
    add = None if image is None else graph.producer(image, "Add")
    fixed = add is None or any(graph.is_fixed(value) for value in add.inputs if value is not None)
    return None if fixed else add


def _biased(value: ir.Value, graph: FusionGraph) -> ir.Node | None:
    """Return the convolution in channels-last layout that alone computes a value and adds a bias to it."""
    back = graph.producer(value, "Transpose")
    if back is None or not is_transpose(back, NHWC_TO_NCHW) or graph.user(value, "Add") is None:
        return None
    source = back.inputs[0]
    conv = graph.producer(source, "NhwcConv", domain=MICROSOFT)
    if source is None or conv is None or len(graph.users(source)) != 1 or graph.is_output(source):
        return None
    return conv if len(conv.inputs) > 2 and conv.inputs[2] is not None else None


def _vector(value: ir.Value, total: ir.Value, graph: FusionGraph) -> ir.Value | None:
    """Return (N, C) if a value is that, with two axes of size 1 behind, for a sum (N, C, H, W)."""
    whole = graph.shapes.of(total)
    shapes = graph.shapes.of(value)
    if whole is None or shapes != tuple((*shape[:2], 1, 1) for shape in whole):
        return None
    wanted = tuple(shape[:2] for shape in whole)
    while (node := graph.producer(value, "Unsqueeze", "Reshape")) is not None:
        assert node.inputs[0] is not None
        value = node.inputs[0]
        if graph.shapes.of(value) == wanted:
            return value
    return None
