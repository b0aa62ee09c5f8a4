"""Derive from the torch modules of a model what each optimization should put into its graphs, and where."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pytest_sdperf.core.contracts import Model
from pytest_sdperf.core.values import Workload
from pytest_sdperf.fusing.expected import sites
from pytest_sdperf.tasks import TaskContext

if TYPE_CHECKING:
    import torch


def run(arguments: Mapping[str, Any], context: TaskContext) -> dict[str, Any]:
    """Look at the modules on the meta device, without weights.

    Args:
        arguments: `model`; `workload`: fields of a `Workload`, whose shapes do not matter.
        context: The task's context.

    Returns: `counts`: component -> optimization -> `domain::op_type` -> nodes that the optimization adds; `sites`:
        component -> optimization -> `domain::op_type` -> module paths where it adds them; `budgets`: component ->
        optimization -> `domain::op_type` -> nodes that it leaves at most.
    """
    model = context.catalog.models.get(arguments["model"])
    context.say(f"counting what the modules of {model.name} allow")
    workload = Workload(**arguments["workload"])
    modules = {component: _used(model, component, workload) for component in model.components}
    optimizations = context.catalog.optimizations.items()
    return {
        "counts": {
            component: {name: dict(optimization.expected(module)) for name, optimization in optimizations.items()}
            for component, module in modules.items()
        },
        "budgets": {
            component: {name: dict(optimization.leaves(module)) for name, optimization in optimizations.items()}
            for component, module in modules.items()
        },
        "sites": {
            component: {
                name: {op: list(paths) for op, paths in optimization.sites(module).items() if paths}
                for name, optimization in optimizations.items()
            }
            for component, module in modules.items()
        },
    }


def _used(model: Model, component: str, workload: Workload) -> torch.nn.Module:
    """Return a component without the sub-modules that no output depends on."""
    import torch

    module = model.module(component, weights=None).eval()
    specs = model.inputs(component, workload)
    inputs = [
        torch.empty(spec.shape, dtype=getattr(torch, "float32" if spec.dtype == "float" else spec.dtype), device="meta")
        for spec in specs
    ]
    sites.remove_unused(module, inputs)
    return module
