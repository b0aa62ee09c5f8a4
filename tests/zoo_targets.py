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

RUNGS = {rung.name: rung for rung in LADDER}
MODELS = {model.name: model for model in (*sd15.MODELS, *sd21.MODELS, *sdxl.MODELS)}
WORKLOAD = Workload(2, 128, 192, 4, "pndm")


def expected(name: str, selection: str) -> tuple[Any, Any]:
    """Return what a selection of rungs must make of a graph: nodes by operator, and module paths by operator."""
    module, rungs = _module_of(name), _rungs(selection)
    counts = total_counts([(rung.expected(module), rung.takes_in) for rung in rungs])
    return counts, total_sites([(rung.sites(module), rung.takes_in) for rung in rungs])


def budgets(name: str, selection: str) -> dict[str, int]:
    """Return how many operators of ONNX a selection of rungs may leave at most: nodes by operator."""
    module = _module_of(name)
    return total_budgets((rung.leaves(module), {}) for rung in _rungs(selection))


def _rungs(selection: str) -> list[Any]:
    return [RUNGS[rung] for rung in ladder.rungs(selection, tuple(RUNGS))]


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
