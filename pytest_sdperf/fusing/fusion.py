"""What a fusion is: where it may begin, what must hold there, what it does, what holds afterwards."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import onnx_ir as ir

from pytest_sdperf.fusing import node_types
from pytest_sdperf.fusing.counted import counted
from pytest_sdperf.fusing.fusion_graph import FusionGraph, path_of
from pytest_sdperf.fusing.record import Site


class RefusalError(Exception):
    """A fusion cannot be applied at a place.

    Args:
        reason: One sentence.
        culprit: The node where it stopped.
    """

    def __init__(self, reason: str, culprit: ir.Node | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.culprit = culprit


class Fusion(ABC):
    """One rewrite of a graph.

    Attributes:
        op: `domain::op_type` of the node that it makes.
    """

    op: str

    @abstractmethod
    def candidates(self, graph: FusionGraph) -> Iterable[ir.Node]:
        """Return the nodes where the fusion may begin: each is applied or refused with a reason."""

    @abstractmethod
    def requires(self, node: ir.Node, graph: FusionGraph) -> Any:
        """Check everything that must hold at a candidate and return what `apply` needs.

        Raises:
            RefusalError: Something does not hold.
        """

    @abstractmethod
    def apply(self, match: Any, graph: FusionGraph) -> ir.Node:
        """Change the graph and return the fused node."""

    def ensures(self, node: ir.Node, graph: FusionGraph) -> None:
        """Check what must hold of the fused node, whatever the graph was: a failure is a mistake of the fusion.

        Raises:
            AssertionError: It does not hold.
        """
        domain, _, op_type = self.op.partition("::")
        assert (node.domain, node.op_type) == (domain, op_type), f"{node.name} is a {node.domain}::{node.op_type}"
        assert node.graph is graph.graph, f"{node.name} is not in the graph"
        assert graph.shapes.of(node.outputs[0]) is not None, f"the shape of {node.name} is not known"


def run(fusion: Fusion, graph: FusionGraph) -> list[Site]:
    """Apply a fusion wherever it can be applied and return every place that it looked at."""
    sites = []
    for node in list(fusion.candidates(graph)):
        if node.graph is None:
            continue  # the fusion of an earlier candidate took it in
        path = path_of(node)
        try:
            _check_type(fusion, node)
            match = fusion.requires(node, graph)
        except RefusalError as refusal:
            culprit = refusal.culprit or node
            sites.append(Site(fusion.op, path, culprit.name or "", culprit.op_type, refusal.reason))
            continue
        fused = fusion.apply(match, graph)
        fusion.ensures(fused, graph)
        sites.append(Site(counted(fused), path, fused.name or "", fused.op_type))
    return sites


def _check_type(fusion: Fusion, node: ir.Node) -> None:
    """Refuse numbers that the operator which is to take the place of a node is not defined for."""
    domain, _, op_type = fusion.op.partition("::")
    schema, dtype = node_types.schema_named(domain, op_type), node.outputs[0].dtype
    formal = None if schema is None else schema.output(0)
    if formal is not None and dtype is not None and not formal.takes(dtype):
        raise RefusalError(f"{op_type} takes no numbers of type {dtype.name}", node)
