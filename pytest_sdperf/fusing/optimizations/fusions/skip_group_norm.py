"""GroupNorm of a sum -> SkipGroupNorm, which takes in the bias of a convolution and also returns the sum."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import onnx_ir as ir

from pytest_sdperf.fusing.fusion import Fusion, RefusalError
from pytest_sdperf.fusing.fusion_graph import MICROSOFT, FusionGraph
from pytest_sdperf.fusing.layout import NCHW_TO_NHWC, NHWC_TO_NCHW, is_transpose, nhwc_of, to_nchw, to_nhwc


@dataclass(frozen=True)
class Match:
    """A norm, the sum that it normalises, and the two activations in it: images (N, C, H, W), or all (N, H, W, C).

    Attributes:
        norm: The GroupNorm.
        total: The sum.
        activation: An image.
        skip: Another one, or a vector (N, C) for all places of an image.
        last: Whether they are in channels-last layout, as a graph holds them that was fused before.
    """

    norm: ir.Node
    total: ir.Value
    activation: ir.Value
    skip: ir.Value
    last: bool


class SkipGroupNorm(Fusion):
    """Sum, GroupNorm and activation in one node."""

    op = f"{MICROSOFT}::SkipGroupNorm"

    def candidates(self, graph: FusionGraph) -> Iterable[ir.Node]:
        """Return every GroupNorm of a sum of activations."""
        return [node for node in graph.nodes("GroupNorm", domain=MICROSOFT) if _sum(node, graph) is not None]

    def requires(self, node: ir.Node, graph: FusionGraph) -> Match:
        """Find two images of the same shape, or an image and a vector of its channels."""
        found = _sum(node, graph)
        if found is None:
            raise RefusalError("another norm has taken in the sum that it normalises", node)
        add, last = found
        total = add.outputs[0]
        first, second = add.inputs
        assert first is not None
        assert second is not None
        for activation, skip in ((first, second), (second, first)):
            if not graph.shapes.same(activation, total):
                continue
            if graph.shapes.same(skip, total):
                # The bias of a convolution can move into the norm: take that operand as the activation.
                other = _biased(skip, graph, last=last) is not None and _biased(activation, graph, last=last) is None
                return Match(node, total, *((skip, activation) if other else (activation, skip)), last)
            vector = _vector(skip, total, graph, last=last)
            if vector is not None:
                return Match(node, total, activation, vector, last)
        raise RefusalError("the sum that it normalises is one of shapes that the operator does not add", add)

    def apply(self, match: Match, graph: FusionGraph) -> ir.Node:
        """Put one node in place of norm and sum."""
        norm = match.norm
        vector = len(graph.shapes.fixed(match.skip) or ()) == 2
        image = match.activation if match.last else to_nhwc(match.activation, graph, before=norm)
        skip = match.skip if vector or match.last else to_nhwc(match.skip, graph, before=norm)
        inputs = [image, norm.inputs[1], norm.inputs[2], skip]
        conv = None if match.activation is match.skip else _biased(match.activation, graph, last=match.last)
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
        graph.import_graph(total, fused.outputs[0])
        first = next(iter(graph.users(match.total)), fused)
        graph.replace(match.total, total if match.last else to_nchw(total, graph, before=first))
        return fused


def _sum(norm: ir.Node, graph: FusionGraph) -> tuple[ir.Node, bool] | None:
    """Return the sum of two activations that a norm normalises, and whether it is in channels-last layout."""
    assert norm.inputs[0] is not None
    image = nhwc_of(norm.inputs[0], graph)
    add = graph.producer(norm.inputs[0] if image is None else image, "Add")
    fixed = add is None or any(graph.is_fixed(value) for value in add.inputs if value is not None)
    return None if add is None or fixed else (add, image is None)


def _biased(value: ir.Value, graph: FusionGraph, *, last: bool) -> ir.Node | None:
    """Return the convolution in channels-last layout that alone computes a value and adds a bias to it."""
    back = None if last else graph.producer(value, "Transpose")
    if (back is None or not is_transpose(back, NHWC_TO_NCHW)) and not last:
        return None
    source = value if back is None else back.inputs[0]
    conv = graph.producer(source, "NhwcConv", domain=MICROSOFT)
    if source is None or conv is None or len(graph.users(source)) != 1 or graph.is_output(source):
        return None
    if graph.user(value, "Add") is None:
        return None
    return conv if len(conv.inputs) > 2 and conv.inputs[2] is not None else None


def _vector(value: ir.Value, total: ir.Value, graph: FusionGraph, *, last: bool) -> ir.Value | None:
    """Return (N, C) if a value is that, with two axes of size 1 for height and width, for a sum of images."""
    whole = graph.shapes.of(total)
    channels = 3 if last else 1
    wanted = None if whole is None else tuple((shape[0], shape[channels]) for shape in whole)
    if wanted is None or graph.shapes.of(value) != tuple((n, 1, 1, c) if last else (n, c, 1, 1) for n, c in wanted):
        return None
    while (node := graph.producer(value, "Unsqueeze", "Reshape", *(["Transpose"] if last else []))) is not None:
        if node.op_type == "Transpose" and not is_transpose(node, NCHW_TO_NHWC):
            return None
        assert node.inputs[0] is not None
        value = node.inputs[0]
        if graph.shapes.of(value) == wanted:
            return value
    return None
