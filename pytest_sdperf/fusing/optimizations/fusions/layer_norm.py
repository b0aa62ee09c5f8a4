"""(x - mean) / sqrt(variance + epsilon), scaled and shifted, as before opset 17 -> LayerNormalization."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import onnx_ir as ir

from pytest_sdperf.fusing.fusion import Fusion, RefusalError
from pytest_sdperf.fusing.fusion_graph import FusionGraph
from pytest_sdperf.fusing.sums import is_channel_weight


@dataclass(frozen=True)
class Match:
    """What is normalised over its last axis, the result, and the parameters."""

    source: ir.Value
    result: ir.Value
    scale: ir.Value
    offset: ir.Value
    epsilon: float


class LayerNormalization(Fusion):
    """Normalization of the last axis in one node."""

    op = "::LayerNormalization"

    def candidates(self, graph: FusionGraph) -> Iterable[ir.Node]:
        """Return every division by the square root of a mean and a constant."""
        return [node for node in graph.nodes("Div") if _variance(node, graph) is not None]

    def requires(self, node: ir.Node, graph: FusionGraph) -> Match:
        """Follow the divisor and the dividend up to what they are computed from, the quotient down to the result."""
        found = _variance(node, graph)
        assert found is not None
        mean_of_squares, epsilon = found
        difference = node.inputs[0]
        assert difference is not None
        source = _source(difference, graph)
        if source is None:
            raise RefusalError("what it divides is no difference from the mean of the last axis", node)
        squares = mean_of_squares.inputs[0]
        if not _is_mean(mean_of_squares, graph) or not _are_squares(squares, source, graph):
            raise RefusalError("its divisor is not computed from the variance of what it divides", mean_of_squares)
        scaled, scale = _weighted(node.outputs[0], "Mul", source, graph)
        result, offset = _weighted(scaled, "Add", source, graph)
        return Match(source, result, scale, offset, epsilon)

    def apply(self, match: Match, graph: FusionGraph) -> ir.Node:
        """Put one node in place of the whole."""
        last = match.result.producer()
        assert last is not None
        attributes = {"axis": -1, "epsilon": match.epsilon}
        inputs = [match.source, match.scale, match.offset]
        fused = graph.add("LayerNormalization", inputs, attributes, before=last, like=match.result)
        graph.replace(match.result, fused.outputs[0])
        return fused


def _variance(quotient: ir.Node, graph: FusionGraph) -> tuple[ir.Node, float] | None:
    """Return the mean that is the radicand of a divisor, and the constant that is added to it."""
    root = graph.producer(quotient.inputs[1], "Sqrt")
    total = None if root is None else graph.producer(root.inputs[0], "Add")
    if total is None:
        return None
    first, second = total.inputs
    for value, added in ((first, second), (second, first)):
        mean, epsilon = graph.producer(value, "ReduceMean"), graph.scalar(added)
        if mean is not None and epsilon is not None:
            return mean, epsilon
    return None


def _source(difference: ir.Value | None, graph: FusionGraph) -> ir.Value | None:
    """Return x if a value is x less the mean of its last axis."""
    subtraction = graph.producer(difference, "Sub")
    if subtraction is None:
        return None
    source, subtracted = subtraction.inputs
    mean = graph.producer(subtracted, "ReduceMean")
    return source if mean is not None and mean.inputs[0] is source and _is_mean(mean, graph) else None


def _are_squares(value: ir.Value | None, source: ir.Value, graph: FusionGraph) -> bool:
    """Say whether a value is the square of x less the mean of its last axis."""
    node = graph.producer(value, "Pow", "Mul")
    if node is None or _source(node.inputs[0], graph) is not source:
        return False
    if node.op_type == "Pow":
        return graph.scalar(node.inputs[1]) == 2
    return _source(node.inputs[1], graph) is source


def _is_mean(node: ir.Node, graph: FusionGraph) -> bool:
    """Say whether a ReduceMean is that of the last axis alone, which stays with size 1."""
    source = node.inputs[0]
    before, after = (None if value is None else graph.shapes.of(value) for value in (source, node.outputs[0]))
    if not before or not after:
        return False
    axes = node.attributes["axes"].as_ints() if "axes" in node.attributes else None
    if axes is None and len(node.inputs) > 1 and node.inputs[1] is not None:
        constant = graph.shapes.constant(node.inputs[1])
        axes = None if constant is None else tuple(int(axis) for axis in constant)
    kept = all(shape == (*whole[:-1], 1) for shape, whole in zip(after, before, strict=True))
    return kept and axes is not None and len(axes) == 1 and axes[0] % len(before[0]) == len(before[0]) - 1


def _weighted(value: ir.Value, op_type: str, source: ir.Value, graph: FusionGraph) -> tuple[ir.Value, ir.Value]:
    """Return the product or sum of a value and a weight of its channels, and the weight."""
    node = graph.user(value, op_type)
    what = "scaled" if op_type == "Mul" else "shifted"
    if node is None or not is_channel_weight(graph.other(node, value), source, graph):
        raise RefusalError(f"its result is not {what} by a weight (C,)", node or value.producer())
    return node.outputs[0], graph.other(node, value)
