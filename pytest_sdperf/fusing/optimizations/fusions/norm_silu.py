"""SiLU behind a GroupNorm or SkipGroupNorm that somebody else has fused without it -> the same node with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import onnx_ir as ir

from pytest_sdperf.fusing.fusion import Fusion, RefusalError
from pytest_sdperf.fusing.fusion_graph import MICROSOFT, FusionGraph
from pytest_sdperf.fusing.node_names import ACTIVATION

_VIEWS = ("Transpose", "Cast", "Identity", "Reshape")
_ONE = 1e-3  # how far a factor may be from 1, as float16 has it


@dataclass(frozen=True)
class Match:
    """A norm, what its SiLU reads and what it returns: equal but for the layout of the former."""

    norm: ir.Node
    source: ir.Value
    result: ir.Value


class NormSilu(Fusion):
    """The activation of a norm that is fused already; one that is fused here takes it in at once."""

    op_type = "GroupNorm"
    op = f"{MICROSOFT}::{op_type}"

    def candidates(self, graph: FusionGraph) -> Iterable[ir.Node]:
        """Return every norm without an activation that a SiLU follows."""
        nodes = graph.nodes(self.op_type, domain=MICROSOFT)
        return [node for node in nodes if not _is_activated(node) and next(_silus(node, graph), None) is not None]

    def requires(self, node: ir.Node, graph: FusionGraph) -> Match:
        """Check that the result is read by its SiLU alone, in whichever layout."""
        source, result, inner = next(_silus(node, graph))
        value = node.outputs[0]
        while value is not source:
            view = graph.user(value, "Transpose")
            if view is None:
                raise RefusalError("more than a transpose is between it and its SiLU, or others read it", node)
            value = view.outputs[0]
        read = [value, *(one.outputs[0] for one in inner[:-1])]
        if any(graph.is_output(one) or not set(graph.users(one)) <= set(inner) for one in read):
            raise RefusalError("its result is read by others than its SiLU", node)
        return Match(node, source, result)

    def apply(self, match: Match, graph: FusionGraph) -> ir.Node:
        """Let the norm do it."""
        match.norm.attributes[ACTIVATION] = ir.AttrInt64(ACTIVATION, 1)
        graph.replace(match.result, match.source)
        return match.norm


class SkipNormSilu(NormSilu):
    """The same of a norm that takes in a sum."""

    op_type = "SkipGroupNorm"
    op = f"{MICROSOFT}::{op_type}"


def _is_activated(norm: ir.Node) -> bool:
    return ACTIVATION in norm.attributes and norm.attributes[ACTIVATION].as_int() == 1


def _silus(norm: ir.Node, graph: FusionGraph) -> Iterator[tuple[ir.Value, ir.Value, list[ir.Node]]]:
    """Yield every SiLU behind a norm, seen through what only moves a value: its argument, its result, its nodes."""
    waiting = [norm.outputs[0]]
    while waiting:
        value = waiting.pop(0)
        for node in graph.users(value):
            if node.op_type in _VIEWS and not node.domain and node.inputs[0] is value:
                waiting.append(node.outputs[0])
            elif _is_whole(node):
                yield value, node.outputs[0], [node]
            elif node.op_type == "Sigmoid" and not node.domain:
                products = [one for one in graph.users(node.outputs[0]) if one.op_type == "Mul" and value in one.inputs]
                for product in products:
                    yield value, product.outputs[0], [node, product]


def _is_whole(node: ir.Node) -> bool:
    """Say whether a node is a SiLU by itself: ONNX Runtime writes it as a QuickGelu whose factor is 1."""
    if (node.domain, node.op_type) not in ((MICROSOFT, "QuickGelu"), ("", "Swish")):
        return False
    default = 1.0 if node.op_type == "Swish" else 1.702
    return abs((node.attributes["alpha"].as_float() if "alpha" in node.attributes else default) - 1) < _ONE
