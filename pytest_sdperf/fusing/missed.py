"""What another optimizer left unfused: its graph beside what the fuser `native` makes of the same export.

Its own log speaks of patterns and not of places, and its fused nodes carry no module path. But it keeps the names of
the values that it does not remove, and those are in the exported graph, with their paths.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from pytest_sdperf.fusing.counted import counted
from pytest_sdperf.fusing.explain import assign
from pytest_sdperf.fusing.fusion import Fusion
from pytest_sdperf.fusing.fusion_graph import FusionGraph, path_of
from pytest_sdperf.fusing.native import fuse
from pytest_sdperf.fusing.record import Site

LEFT = "left by onnxruntime's optimizer; the fuser native fuses it"
OTHER = "onnxruntime's optimizer made something else of it than the fuser native does"


@dataclass(frozen=True)
class FusedOrigin:
    """Where a fused node began: the first candidate, in the exported graph, and its module path."""

    path: str
    node: str
    op_type: str


class _Watched(Fusion):
    """A fusion that remembers where each of its nodes began, also where it takes in what another one made."""

    def __init__(self, inner: Fusion, origins: dict[ir.Node, FusedOrigin]) -> None:
        self.op = inner.op
        self._inner = inner
        self._origins = origins

    def candidates(self, graph: FusionGraph) -> Iterable[ir.Node]:
        return self._inner.candidates(graph)

    def requires(self, node: ir.Node, graph: FusionGraph) -> Any:
        return node, self._inner.requires(node, graph)

    def apply(self, match: Any, graph: FusionGraph) -> ir.Node:
        node, inner = match
        origin = self._origins.get(node) or FusedOrigin(path_of(node), node.name or "", node.op_type)
        fused = self._inner.apply(inner, graph)
        self._origins[fused] = origin
        return fused

    def ensures(self, node: ir.Node, graph: FusionGraph) -> None:
        self._inner.ensures(node, graph)


def find_leftovers(source: ir.Model, fused: ir.Model, fusions: Sequence[Fusion]) -> list[Site]:
    """Return every fused node of another optimizer's graph, and every place where it could have made one.

    Args:
        source: The exported graph; it is changed, but its weights are not read.
        fused: The same graph after the other optimizer.
        fusions: Of the same optimizations, in the order of the ladder.

    Raises:
        BuildError: The source needs an opset for which there are no kernels.
    """
    # Before the fusions change the source.
    paths = {value.name: path_of(node) for node in source.graph for value in node.outputs if value.name}
    there = [
        Site(counted(node), _origin(node, paths), node.name or "", node.op_type)
        for node in fused.graph
        if node.domain or node.op_type == "LayerNormalization"
    ]
    origins: dict[ir.Node, FusedOrigin] = {}
    sites = fuse(source, [_Watched(fusion, origins) for fusion in fusions])
    made: dict[str, list[FusedOrigin]] = {}
    for node, origin in origins.items():
        if node.graph is not None:  # else another fusion took it in
            made.setdefault(counted(node), []).append(origin)
    left = [site for op, begun in made.items() for site in _left(op, begun, there)]
    return [*there, *left, *(site for site in sites if site.reason)]


def _left(op: str, begun: Sequence[FusedOrigin], there: Sequence[Site]) -> list[Site]:
    """Return where one operator could be and is not, with what is there instead."""
    matched = assign([origin.path for origin in begun], [site.path for site in there if site.op == op])
    found = []
    for index, origin in enumerate(begun):
        if index not in matched:
            other = next((site for site in there if site.path == origin.path), None)
            node, reason = (origin, LEFT) if other is None else (other, OTHER)
            found.append(Site(op, origin.path, node.node, node.op_type, reason))
    return found


def _origin(node: ir.Node, paths: Mapping[str, str]) -> str:
    """Return the module path of a node from the names of its outputs, which may be decorated; empty if none is known.

    onnxruntime writes `NhwcConv_3_out-NAME` and `NAME_NHWC` where it changes the layout of what was NAME.
    """
    for value in node.outputs:
        name = value.name or ""
        for known in (name, name.partition("_out-")[2], name.removesuffix("_NHWC")):
            if known in paths:
                return paths[known]
    return ""
