"""Find out what a graph holds, and what each optimization of the ladder could make in it, from its own structure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_sdperf.tasks import TaskContext


def run(arguments: Mapping[str, Any], context: TaskContext) -> dict[str, Any]:
    """Look at a graph; its weights are not read.

    Args:
        arguments: `source` (graph), `component`, `optimizations` (names, lowest first).
        context: The task's context.

    Returns: `counts`: `domain::op_type` -> nodes that a graph with these optimizations should hold; `sites`: the same
        with module paths instead of numbers, and nothing for 0; `budgets`: how many operators of ONNX may be left at
        most; `optimizations`: as `fusing.survey.standing` says; `places`: as `fusing.survey.begun` says.

    Raises:
        BuildError: The graph holds an operator in a form that no exporter emits.
    """
    import dataclasses

    import onnx_ir as ir

    from pytest_sdperf.fusing.analysis import analyze, begun, budgets, expected_sites, standing

    context.say(f"looking at the structure of {arguments['component']}")
    optimizations = {name: context.catalog.optimizations.get(name) for name in arguments["optimizations"]}
    found = analyze(ir.load(arguments["source"]), optimizations)
    sites = expected_sites(found, optimizations)
    return {
        "counts": {op: len(paths) for op, paths in sites.items()},
        "sites": {op: paths for op, paths in sites.items() if paths},
        "budgets": budgets(found),
        "optimizations": standing(found, optimizations),
        "places": [dataclasses.asdict(site) for site in begun(found)],
    }
