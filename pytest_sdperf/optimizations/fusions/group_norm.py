"""InstanceNormalization of channel groups, scale, offset and SiLU -> GroupNorm in channels-last layout."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import onnx_ir as ir

from pytest_sdperf.fusing.fusion import Fusion, Refused
from pytest_sdperf.fusing.fusion_graph import MICROSOFT, FusionGraph
from pytest_sdperf.fusing.layout import to_nchw, to_nhwc


@dataclass(frozen=True)
class Match:
    """A group norm: the image (N, C, H, W), the result, weights, and what it is followed by.

    Attributes:
        image: What it normalises.
        result: Its result, after SiLU if there is one.
        shape: Where the result is a sequence (N, C, H x W): the value that has its shape; else None.
        scale, offset: Weights with C elements.
        groups, epsilon, silu: Attributes of the fused node.
    """

    image: ir.Value
    result: ir.Value
    shape: ir.Value | None
    scale: ir.Value
    offset: ir.Value
    groups: int
    epsilon: float
    silu: bool


class GroupNorm(Fusion):
    """Group normalization with its activation."""

    op = f"{MICROSOFT}::GroupNorm"

    def candidates(self, graph: FusionGraph) -> Iterable[ir.Node]:
        """Return every InstanceNormalization: exporters express group normalization by it."""
        return graph.nodes("InstanceNormalization")

    def requires(self, node: ir.Node, graph: FusionGraph) -> Match:
        """Find the image, the weights and the activation."""
        split = graph.producer(node.inputs[0], "Reshape")
        if split is None:
            raise Refused("its input is not split into groups by Reshape", node)
        groups = (graph.shapes.fixed(split.outputs[0]) or (None, None))[1]
        joined = graph.user(node.outputs[0], "Reshape")
        source = split.inputs[0]
        assert source is not None
        if groups is None or joined is None or not graph.shapes.same(source, joined.outputs[0]):
            raise Refused("its groups are not put together to the shape that they had", joined or node)
        if graph.scalar(node.inputs[1]) != 1 or graph.scalar(node.inputs[2]) != 0:
            raise Refused("it scales or shifts its groups", node)
        image = _image(source, graph)
        shape = graph.shapes.fixed(image)
        if shape is None or len(shape) != 4 or shape[1] is None:
            raise Refused("it normalises no image (N, C, H, W)", split)
        scaled, scale = _weighted(joined.outputs[0], "Mul", shape[1], graph)
        shifted, offset = _weighted(scaled, "Add", shape[1], graph)
        activated = _silu(shifted, graph)
        return Match(
            image, activated or shifted, None if image is source else source, scale, offset, groups,
            node.attributes["epsilon"].as_float() if "epsilon" in node.attributes else 1e-5, activated is not None,
        )  # fmt: skip

    def apply(self, match: Match, graph: FusionGraph) -> ir.Node:
        """Transpose, normalise, transpose back."""
        last = match.result.producer()
        assert last is not None
        channels = (graph.shapes.fixed(match.image) or (0, 0))[1]
        weights = [
            # Its kernel takes float32 alone, whatever the type of the image.
            graph.weight(value, "channels", (channels or 0,), lambda w: w.reshape(-1), dtype=ir.DataType.FLOAT)
            for value in (match.scale, match.offset)
        ]
        fused = graph.add(
            "GroupNorm", [to_nhwc(match.image, graph, before=last), *weights],
            {
                "epsilon": match.epsilon, "groups": match.groups, "activation": int(match.silu), "channels_last": 1,
            },
            before=last, domain=MICROSOFT,
        )  # fmt: skip
        result = to_nchw(fused.outputs[0], graph, before=last)
        if match.shape is not None:
            shape = graph.add("Shape", [match.shape], before=last)
            shape.outputs[0].dtype = ir.DataType.INT64
            result = graph.add("Reshape", [result, shape.outputs[0]], before=last, like=match.result).outputs[0]
        graph.replace(match.result, result)
        return fused


def _image(source: ir.Value, graph: FusionGraph) -> ir.Value:
    """Return the image of which a sequence (N, C, H x W) is a view: its groups hold the same elements."""
    view = graph.producer(source, "Reshape")
    image = None if view is None else view.inputs[0]
    shapes, images = graph.shapes.of(source), None if image is None else graph.shapes.of(image)
    if image is None or shapes is None or images is None:
        return source
    same = all(
        len(shape) == 3 and len(whole) == 4 and shape == (whole[0], whole[1], whole[2] * whole[3])
        for shape, whole in zip(shapes, images, strict=True)
    )
    return image if same else source


def _weighted(value: ir.Value, op_type: str, channels: int, graph: FusionGraph) -> tuple[ir.Value, ir.Value]:
    node = graph.user(value, op_type)
    what = "scaled" if op_type == "Mul" else "shifted"
    if node is None:
        raise Refused(f"its result is not {what} by a weight of its channels", value.producer())
    weight = graph.other(node, value)
    rank = len((graph.shapes.fixed(value)) or ())
    shape = graph.shapes.fixed(weight) or ()
    padded = (1,) * (rank - len(shape)) + tuple(shape)
    if not graph.is_weight(weight) or padded != (1, channels, *(1,) * (rank - 2)):
        raise Refused(f"its result is not {what} by a weight of its channels", node)
    return node.outputs[0], weight


def _silu(value: ir.Value, graph: FusionGraph) -> ir.Value | None:
    """Return x * sigmoid(x) if that is all that is done with x."""
    users = graph.users(value)
    sigmoid = next((node for node in users if node.op_type == "Sigmoid"), None)
    if sigmoid is None or len(users) != 2 or graph.is_output(value):
        return None
    product = graph.user(sigmoid.outputs[0], "Mul")
    if product is None or product not in users or set(product.inputs) != {value, sigmoid.outputs[0]}:
        return None
    return product.outputs[0]
