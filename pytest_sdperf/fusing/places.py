"""Where nodes are that should not have been left."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx_ir as ir


def places_left(path: Path, ops: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Return `domain::op_type` -> `MODULE (NODE)` of each node of a graph, in its order.

    A node that a fuser put in belongs to no module: it is told by what it reads, or else by what reads it.

    Args:
        path: The graph file; weights are not read.
        ops: `domain::op_type` of those that are looked for.
    """
    import onnx_ir as ir

    found: dict[str, tuple[str, ...]] = {}
    for node in ir.load(path).graph:
        name = f"{node.domain}::{node.op_type}"
        if name in ops:
            found[name] = (*found.get(name, ()), f"{_module(node) or 'the edge of the graph'} ({node.name})")
    return found


def _module(node: ir.Node) -> str:
    from pytest_sdperf.fusing.fusion_graph import path_of

    makers = [value.producer() for value in node.inputs if value is not None]
    users = [user for value in node.outputs for user, _ in value.uses()]
    around = [one for one in (*makers, *users) if one is not None]
    return path_of(node) or next((f"next to {path}" for path in map(path_of, around) if path), "")
