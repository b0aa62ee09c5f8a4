"""Derive from the torch modules of a model what each optimization should put into its graphs, and where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_sdperf.core.contracts import Model
from pytest_sdperf.core.values import Workload
from pytest_sdperf.fusing.expected import sites
from pytest_sdperf.tasks import TaskContext

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class DeriveExpectations:
    """The modules of one model.

    Attributes:
        model: Catalog name.
        workload: The modules are given its shapes, which do not matter.
    """

    model: str
    workload: Workload


@dataclass(frozen=True)
class Expectations:
    """Component -> optimization -> `domain::op_type` -> what a graph should hold.

    Attributes:
        counts: Nodes that the optimization adds.
        budgets: Nodes that it leaves at most.
        sites: Paths of the modules where it adds nodes; operators without any are left out.
    """

    counts: Mapping[str, Mapping[str, Mapping[str, int]]]
    budgets: Mapping[str, Mapping[str, Mapping[str, int]]]
    sites: Mapping[str, Mapping[str, Mapping[str, tuple[str, ...]]]]


def run(request: DeriveExpectations, context: TaskContext) -> Expectations:
    """Look at the modules on the meta device, without weights."""
    model = context.catalog.models.get(request.model)
    context.say(f"counting what the modules of {model.name} allow")
    modules = {component: _used(model, component, request.workload) for component in model.components}
    optimizations = context.catalog.optimizations.items()
    return Expectations(
        counts={
            component: {name: dict(optimization.expected(module)) for name, optimization in optimizations.items()}
            for component, module in modules.items()
        },
        budgets={
            component: {name: dict(optimization.leaves(module)) for name, optimization in optimizations.items()}
            for component, module in modules.items()
        },
        sites={
            component: {
                name: {op: tuple(paths) for op, paths in optimization.sites(module).items() if paths}
                for name, optimization in optimizations.items()
            }
            for component, module in modules.items()
        },
    )


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
