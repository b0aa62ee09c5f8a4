"""What the modules of the graphs of the zoo allow: operators by name, and the places where they must be."""

from __future__ import annotations

import functools
from collections import Counter
from typing import Any

import onnx_ir as ir

from pytest_sdperf.builds.expectations import total_budgets, total_counts, total_sites
from pytest_sdperf.core import ladder
from pytest_sdperf.core.values import Workload
from pytest_sdperf.fusing.counted import counted as counted_name
from pytest_sdperf.fusing.expected.sites import remove_unused
from pytest_sdperf.fusing.optimizations import LADDER
from pytest_sdperf.models import sd15, sd21, sdxl

OPTIMIZATIONS = {optimization.name: optimization for optimization in LADDER}
MODELS = {model.name: model for model in (*sd15.MODELS, *sd21.MODELS, *sdxl.MODELS)}
WORKLOAD = Workload(2, 128, 192, 4, "pndm")


def expected(name: str, selection: str) -> tuple[Any, Any]:
    """Return what a selection must make of a graph: nodes by operator, and module paths by operator."""
    module, optimizations = _module_of(name), _optimizations(selection)
    counts = total_counts([(optimization.expected(module), optimization.takes_in) for optimization in optimizations])
    return counts, total_sites([(optimization.sites(module), optimization.takes_in) for optimization in optimizations])


def budgets(name: str, selection: str) -> dict[str, int]:
    """Return how many operators of ONNX a selection of optimizations may leave at most: nodes by operator."""
    module = _module_of(name)
    return total_budgets((optimization.leaves(module), {}) for optimization in _optimizations(selection))


def _optimizations(selection: str) -> list[Any]:
    return [OPTIMIZATIONS[optimization] for optimization in ladder.optimizations(selection, tuple(OPTIMIZATIONS))]


def _module_of(name: str) -> Any:
    words = name.partition("/")[2]
    model = max((m for m in MODELS if words.startswith(f"{m}-")), key=len)
    return _module(model, words.removeprefix(f"{model}-").partition("-")[0])


@functools.cache
def _module(model: str, component: str) -> Any:
    """Return a component on the meta device; made once."""
    import torch

    module = MODELS[model].module(component, weights=None).eval()
    inputs = [
        torch.empty(s.shape, dtype=getattr(torch, "float32" if s.dtype == "float" else s.dtype), device="meta")
        for s in MODELS[model].inputs(component, WORKLOAD)
    ]
    remove_unused(module, inputs)
    return module


def counted(model: ir.Model) -> Counter[str]:
    """Return the nodes of a graph by operator, named as in what is expected."""
    return Counter(map(counted_name, model.graph))
