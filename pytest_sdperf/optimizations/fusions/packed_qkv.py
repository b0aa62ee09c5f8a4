"""MultiHeadAttention of three projections of the same sequence -> one projection, packed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from pytest_sdperf.fusing.evaluation import Array
from pytest_sdperf.fusing.fusion import Fusion, Refused
from pytest_sdperf.fusing.fusion_graph import MICROSOFT, FusionGraph


@dataclass(frozen=True)
class Match:
    """An attention and the projections to pack: query, key and value of self attention, key and value of cross."""

    attention: ir.Node
    projections: tuple[ir.Node, ...]
    heads: int
    size: int


class PackedQkv(Fusion):
    """Packed query, key and value of self attention, packed key and value of cross attention."""

    op = f"{MICROSOFT}::MultiHeadAttention"

    def candidates(self, graph: FusionGraph) -> Iterable[ir.Node]:
        """Return every MultiHeadAttention with three inputs."""
        nodes = graph.nodes("MultiHeadAttention", domain=MICROSOFT)
        return [node for node in nodes if sum(value is not None for value in node.inputs) == 3]

    def requires(self, node: ir.Node, graph: FusionGraph) -> Match:
        """Find projections of the same sequence by weights of the same size, without bias."""
        heads = node.attributes["num_heads"].as_int()
        query, key, value = (graph.producer(operand, "MatMul") for operand in node.inputs[:3])
        if key is None or value is None:
            operand = node.inputs[1] if key is None else node.inputs[2]
            assert operand is not None
            raise Refused("its key or value is no projection without bias", operand.producer() or node)
        if key.inputs[0] is not value.inputs[0]:
            raise Refused("its key and value are projections of different sequences", value)
        itself = query is not None and query.inputs[0] is key.inputs[0]
        projections = (query, key, value) if itself and query is not None else (key, value)
        for projection in projections:
            if not graph.is_weight(projection.inputs[1], 2):
                raise Refused("it is projected by something other than a weight of rank 2", projection)
            if len(graph.users(projection.outputs[0])) != 1:
                raise Refused("a projection is read by others too", projection)
        widths = {(graph.shapes.fixed(projection.outputs[0]) or (None,))[-1] for projection in projections}
        width = widths.pop()
        if widths or width is None or width % heads:
            raise Refused("its projections differ in size", projections[0])
        if "unidirectional" in node.attributes and node.attributes["unidirectional"].as_int():
            raise Refused("it is causal", node)
        return Match(node, projections, heads, width // heads)

    def apply(self, match: Match, graph: FusionGraph) -> ir.Node:
        """Put one projection, whose columns are grouped by head, in place of two or three."""
        first, node, count = match.projections[0], match.attention, len(match.projections)
        weights = [projection.inputs[1] for projection in match.projections]
        source = weights[0]
        assert source is not None
        assert source.const_value is not None
        rows = int(source.const_value.shape[0])
        heads, size = match.heads, match.size

        def pack(*arrays: Array) -> Array:
            return np.stack([array.reshape(rows, heads, size) for array in arrays], axis=2).reshape(rows, -1)

        others = [value for value in weights[1:] if value is not None]
        packed = graph.weight(source, "packed", (rows, heads * count * size), pack, *others)
        projected = graph.add("MatMul", [first.inputs[0], packed], before=node)
        projected.outputs[0].dtype = first.outputs[0].dtype
        shape = graph.constant(np.array([0, 0, heads, count, size], dtype=np.int64), "shape")
        split = graph.add("Reshape", [projected.outputs[0], shape], before=node)
        attributes = {name: attribute.value for name, attribute in node.attributes.items()}
        inputs = [split.outputs[0]] if count == 3 else [node.inputs[0], split.outputs[0]]
        fused = graph.add("MultiHeadAttention", inputs, attributes, before=node, domain=MICROSOFT, like=node.outputs[0])
        graph.replace(node.outputs[0], fused.outputs[0])
        return fused
