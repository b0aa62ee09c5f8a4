"""Plant a fault into a graph or into weights: what the cache holds is copied, changed, and stays as it was."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_sdperf.core.clock import Stopwatch, Took
from pytest_sdperf.core.files.disk import disk_errors
from pytest_sdperf.faults import known
from pytest_sdperf.faults.fault import Fault, FaultStage, NowhereError
from pytest_sdperf.fusing import graph, record
from pytest_sdperf.fusing.graph import GraphFacts
from pytest_sdperf.tasks import TaskContext, export, weights


@dataclass(frozen=True)
class PlantFault:
    """A fault, and what it goes into.

    Attributes:
        fault: Its name.
        source: `model.onnx`, or a safetensors file.
    """

    fault: str
    source: Path


@dataclass(frozen=True)
class Planted(Took):
    """What became of a fault.

    Attributes:
        planted: Whether there was a place for it; else nothing was written.
        graph: What was found in the graph with it; None for weights.
    """

    planted: bool
    graph: GraphFacts | None = None


def run(request: PlantFault, context: TaskContext) -> Planted:
    """Write the graph or the weights with the fault, and what belongs to them.

    Raises:
        CacheError: The disk is full or read-only.
    """
    fault, source, watch = known.get(request.fault), request.source, Stopwatch()
    plant: Callable[[Fault, Path, Path], GraphFacts | None] = (
        _into_weights if source.name == weights.FILE else _into_graph
    )
    try:
        with disk_errors(context.cache_dir):
            described = plant(fault, source, context.out_dir)
    except NowhereError:
        return Planted(**vars(watch.took()), planted=False)
    return Planted(**vars(watch.took()), planted=True, graph=described)


def _into_weights(fault: Fault, source: Path, folder: Path) -> None:
    from safetensors.numpy import load_file, save_file

    if fault.place is not FaultStage.WEIGHTS:
        raise NowhereError("a torch module has no graph")
    arrays = load_file(source)
    fault.change(arrays)
    save_file(arrays, folder / weights.FILE)


def _into_graph(fault: Fault, source: Path, folder: Path) -> GraphFacts:
    import onnx_ir as ir

    model = ir.load(source)
    if fault.place is FaultStage.WEIGHTS:
        _change_initializers(fault, model)
    else:
        fault.change(model)
    path = folder / export.FILE
    ir.save(model, path, external_data=f"{export.FILE}.data")
    if (source.parent / record.FILE).is_file():
        shutil.copy(source.parent / record.FILE, folder)
    return graph.describe(path)


def _change_initializers(fault: Fault, model: Any) -> None:
    import onnx_ir as ir

    values = {
        name: value
        for name, value in model.graph.initializers.items()
        if value.const_value is not None and value.dtype == ir.DataType.FLOAT
    }
    before = {name: value.const_value.numpy() for name, value in values.items()}
    arrays = dict(before)
    fault.change(arrays)
    for name, value in values.items():
        if arrays[name] is not before[name]:
            value.const_value = ir.tensor(arrays[name], name=name)
