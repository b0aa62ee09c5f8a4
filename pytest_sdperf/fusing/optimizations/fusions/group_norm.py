"""InstanceNormalization of channel groups, scale, offset and SiLU -> GroupNorm in channels-last layout."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import onnx_ir as ir

from pytest_sdperf.fusing.fusion import Fusion, RefusalError
from pytest_sdperf.fusing.fusion_graph import MICROSOFT, FusionGraph
from pytest_sdperf.fusing.layout import to_nchw, to_nhwc


@dataclass(frozen=True)
class Match:
    """A group norm: the image (N, C, H, W), the result, weights, and what it is followed by.

    Attributes:
        norm: The InstanceNormalization.
        image: What it normalises.
        result: Its result, after SiLU if there is one.
        shape: Where the result is a sequence (N, C, H x W): the value that has its shape; else None.
        scale, offset: Weights with C elements.
        channels: C.
        groups, epsilon, silu: Attributes of the fused node.
    """

    norm: ir.Node
    image: ir.Value
    result: ir.Value
    shape: ir.Value | None
    scale: ir.Value
    offset: ir.Value
    channels: int
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
            raise RefusalError("its input is not split into groups by Reshape", node)
        source = split.inputs[0]
        assert source is not None
        image = _image(source, graph)
        shape = graph.shapes.fixed(image)
        if shape is None or len(shape) != 4 or shape[1] is None:
            raise RefusalError("it normalises no image (N, C, H, W)", split)
        channels, groups = shape[1], _groups(source, split.outputs[0], graph)
        if groups is None or channels % groups:
            raise RefusalError("its channels are not split into groups of equal size", split)
        joined = graph.user(node.outputs[0], "Reshape")
        if joined is None or not graph.shapes.same(source, joined.outputs[0]):
            raise RefusalError("its groups are not put together to the shape that they had", joined or node)
        if graph.scalar(node.inputs[1]) != 1 or graph.scalar(node.inputs[2]) != 0:
            raise RefusalError("it scales or shifts its groups", node)
        scaled, scale = _weighted(joined.outputs[0], "Mul", channels, graph)
        shifted, offset = _weighted(scaled, "Add", channels, graph)
        activated = _silu(shifted, graph)
        return Match(
            node, image, activated or shifted, None if image is source else source, scale, offset, channels, groups,
            node.attributes["epsilon"].as_float() if "epsilon" in node.attributes else 1e-5, activated is not None,
        )  # fmt: skip

    def apply(self, match: Match, graph: FusionGraph) -> ir.Node:
        """Transpose, normalise, transpose back."""
        # Here and not where the activation is: the module path is that of the norm.
        before = match.norm
        weights = [
            # Its kernel takes float32 alone, whatever the type of the image.
            graph.weight(
                value, "channels", (match.channels,), lambda weight: weight.reshape(-1), dtype=ir.DataType.FLOAT
            )
            for value in (match.scale, match.offset)
        ]
        attributes = {
            "epsilon": match.epsilon, "groups": match.groups, "activation": int(match.silu), "channels_last": 1,
        }  # fmt: skip
        image = to_nhwc(match.image, graph, before=before)
        fused = graph.add("GroupNorm", [image, *weights], attributes, before=before, domain=MICROSOFT)
        result = to_nchw(fused.outputs[0], graph, before=before)
        if match.shape is not None:
            shape = graph.add("Shape", [match.shape], before=before).outputs[0]
            result = graph.add("Reshape", [result, shape], before=before, like=match.result).outputs[0]
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


def _groups(source: ir.Value, split: ir.Value, graph: FusionGraph) -> int | None:
    """Return the number of groups into which samples are split; None if samples are mixed or it is not fixed."""
    shapes, parts = graph.shapes.of(source), graph.shapes.of(split)
    if shapes is None or parts is None or any(len(part) < 3 for part in parts):
        return None
    numbers = {part[1] if part[0] == shape[0] else None for shape, part in zip(shapes, parts, strict=True)}
    return numbers.pop() if len(numbers) == 1 else None


def _weighted(value: ir.Value, op_type: str, channels: int, graph: FusionGraph) -> tuple[ir.Value, ir.Value]:
    """Return the product or sum of a value and a weight of its channels, and the weight."""
    node = graph.user(value, op_type)
    what = "scaled" if op_type == "Mul" else "shifted"
    if node is None:
        raise RefusalError(f"its result is not {what} by a weight of its channels", value.producer())
    weight = graph.other(node, value)
    rank = len(graph.shapes.fixed(value) or ())
    shape = graph.shapes.fixed(weight) or ()
    padded = (1,) * (rank - len(shape)) + tuple(shape)
    if not graph.is_weight(weight) or padded != (1, channels, *(1,) * (rank - 2)):
        raise RefusalError(f"its result is not {what} by a weight of its channels", node)
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
