"""MultiHeadAttention of projections of the same sequence -> one projection, packed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from pytest_sdperf.fusing.contents import Array
from pytest_sdperf.fusing.fusion import Fusion, RefusalError
from pytest_sdperf.fusing.fusion_graph import MICROSOFT, FusionGraph


@dataclass(frozen=True)
class Match:
    """An attention and the projections to pack: query, key and value of self attention, key and value of cross.

    Attributes:
        attention: The MultiHeadAttention.
        source: The sequence (B, S, `width`) that is projected.
        weights: One (`width`, heads x size) per projection.
        width, heads, size: Sizes.
    """

    attention: ir.Node
    source: ir.Value
    weights: tuple[ir.Value, ...]
    width: int
    heads: int
    size: int


class PackedQkv(Fusion):
    """Packed query, key and value of self attention, packed key and value of cross attention."""

    op = f"{MICROSOFT}::MultiHeadAttention"

    def candidates(self, graph: FusionGraph) -> Iterable[ir.Node]:
        """Return every MultiHeadAttention that has query, key and value and nothing else."""
        nodes = graph.nodes("MultiHeadAttention", domain=MICROSOFT)
        return [node for node in nodes if [value is not None for value in node.inputs] == [True] * 3]

    def requires(self, node: ir.Node, graph: FusionGraph) -> Match:
        """Find projections of the same sequence by weights of the same size, without bias."""
        query, key, value = (graph.producer(operand, "MatMul") for operand in node.inputs)
        if key is None or value is None:
            operand = node.inputs[1 if key is None else 2]
            raise RefusalError("its key or value is no projection without bias", graph.producer(operand) or node)
        source = key.inputs[0]
        assert source is not None
        if source is not value.inputs[0]:
            raise RefusalError("its key and value are projections of different sequences", value)
        itself = query is not None and query.inputs[0] is source
        projections = (query, key, value) if itself and query is not None else (key, value)
        weights = tuple(_weight(projection, graph) for projection in projections)
        sizes = {graph.shapes.fixed(weight) for weight in weights}
        width, columns = next(iter(sizes)) or (None, None)
        heads = node.attributes["num_heads"].as_int()
        if len(sizes) != 1 or width is None or columns is None or columns % heads:
            raise RefusalError("its projections differ in size", projections[0])
        if "unidirectional" in node.attributes and node.attributes["unidirectional"].as_int():
            raise RefusalError("it is causal", node)
        return Match(node, source, weights, width, heads, columns // heads)

    def apply(self, match: Match, graph: FusionGraph) -> ir.Node:
        """Put one projection, whose columns are grouped by head, in place of two or three."""
        node, count = match.attention, len(match.weights)
        width, heads, size = match.width, match.heads, match.size

        def pack(*arrays: Array) -> Array:
            return np.stack([array.reshape(width, heads, size) for array in arrays], axis=2).reshape(width, -1)

        first, *others = match.weights
        # The number of heads decides which columns go together.
        packed = graph.weight(first, f"packed{heads}", (width, heads * count * size), pack, *others)
        projected = graph.add("MatMul", [match.source, packed], before=node).outputs[0]
        shape = graph.constant(np.array([0, 0, heads, count, size], dtype=np.int64), "shape")
        split = graph.add("Reshape", [projected, shape], before=node).outputs[0]
        inputs = [split] if count == 3 else [node.inputs[0], split]
        fused = graph.add(
            "MultiHeadAttention", inputs, node.attributes, before=node, domain=MICROSOFT, like=node.outputs[0]
        )
        graph.replace(node.outputs[0], fused.outputs[0])
        return fused


def _weight(projection: ir.Node, graph: FusionGraph) -> ir.Value:
    """Return the weight of a projection that only an attention reads."""
    weight, result = projection.inputs[1], projection.outputs[0]
    if weight is None or not graph.is_weight(weight, 2):
        raise RefusalError("it is projected by something other than a weight of rank 2", projection)
    if len(graph.users(result)) != 1 or graph.is_output(result):
        raise RefusalError("a projection is read by others too", projection)
    return weight
