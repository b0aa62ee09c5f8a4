"""Find out what a graph holds, and what each optimization of the ladder could make in it, from its own structure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_sdperf.fusing.record import Site, Standing
from pytest_sdperf.tasks import TaskContext


@dataclass(frozen=True)
class AnalyzeGraph:
    """One graph that somebody else made.

    Attributes:
        source: Its file.
        component: What it computes.
        optimizations: Names, lowest first.
    """

    source: Path
    component: str
    optimizations: tuple[str, ...]


@dataclass(frozen=True)
class GraphStructure:
    """What the structure of a graph tells.

    Attributes:
        counts: `domain::op_type` -> nodes that a graph with the optimizations should hold.
        sites: `domain::op_type` -> paths of the modules where it should; operators without any are left out.
        budgets: `domain::op_type` of ONNX -> nodes that may be left at most.
        optimizations: By name, how they stand.
        places: Where something could be fused, and what that would be.
    """

    counts: Mapping[str, int]
    sites: Mapping[str, tuple[str, ...]]
    budgets: Mapping[str, int]
    optimizations: Mapping[str, Standing]
    places: tuple[Site, ...]


def run(request: AnalyzeGraph, context: TaskContext) -> GraphStructure:
    """Look at a graph; its weights are not read.

    Raises:
        BuildError: The graph holds an operator in a form that no exporter emits.
    """
    import onnx_ir as ir

    from pytest_sdperf.fusing.analysis import analyze, begun, budgets, expected_sites, standing

    context.say(f"looking at the structure of {request.component}")
    optimizations = {name: context.catalog.optimizations.get(name) for name in request.optimizations}
    found = analyze(ir.load(request.source), optimizations)
    sites = expected_sites(found, optimizations)
    return GraphStructure(
        counts={op: len(paths) for op, paths in sites.items()},
        sites={op: tuple(paths) for op, paths in sites.items() if paths},
        budgets=budgets(found),
        optimizations=standing(found, optimizations),
        places=tuple(begun(found)),
    )
