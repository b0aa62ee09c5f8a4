"""Derive from the torch modules of a model what each rung of the ladder should put into its graphs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_sdperf.contracts import Model
from pytest_sdperf.structure import sites
from pytest_sdperf.tasks import TaskContext
from pytest_sdperf.values import Workload


def run(arguments: Mapping[str, Any], context: TaskContext) -> dict[str, Any]:
    """Count on the meta device, without weights.

    Args:
        arguments: `model`; `workload`: fields of a `Workload`, whose shapes do not matter.
        context: The task's context.

    Returns:
        `counts`: component -> rung -> `domain::op_type` -> nodes that the rung adds.
    """
    model = context.catalog.models.get(arguments["model"])
    context.say(f"counting what the modules of {model.name} allow")
    workload = Workload(**arguments["workload"])
    return {"counts": {component: _per_rung(model, component, workload, context) for component in model.components}}


def _per_rung(model: Model, component: str, workload: Workload, context: TaskContext) -> dict[str, dict[str, int]]:
    import torch

    module = model.module(component, weights=None).eval()
    specs = model.inputs(component, workload)
    inputs = [
        torch.empty(spec.shape, dtype=getattr(torch, "float32" if spec.dtype == "float" else spec.dtype), device="meta")
        for spec in specs
    ]
    sites.remove_unused(module, inputs)
    rungs = context.catalog.optimizations.items()
    return {name: dict(rung.expected(module)) for name, rung in rungs.items()}
