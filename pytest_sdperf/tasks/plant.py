"""Plant a fault into a graph or into weights: what the cache holds is copied, changed, and stays as it was."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_sdperf.core.clock import Stopwatch
from pytest_sdperf.core.files.disk import disk_errors
from pytest_sdperf.faults import known
from pytest_sdperf.faults.fault import Fault, FaultStage, NowhereError
from pytest_sdperf.fusing import graph, record
from pytest_sdperf.tasks import TaskContext, export, weights

PLANTED = "planted"  # of the answer: whether there was a place for the fault


def run(arguments: Mapping[str, Any], context: TaskContext) -> dict[str, Any]:
    """Write the graph or the weights with the fault, and what belongs to them.

    Args:
        arguments: `fault`: its name; `source`: `model.onnx` or a safetensors file; `cache_dir`: the cache folder, for
            messages.
        context: The task's context.

    Returns:
        `planted`; `seconds` and `cpu_seconds`; of a graph what `graph.describe` says about it. Nothing is written where
        the fault has no place.

    Raises:
        CacheError: The disk is full or read-only.
    """
    fault, source, watch = known.get(arguments["fault"]), Path(arguments["source"]), Stopwatch()
    plant = _into_weights if source.name == weights.FILE else _into_graph
    try:
        with disk_errors(context.cache_dir):
            found = plant(fault, source, context.out_dir)
    except NowhereError:
        return {PLANTED: False, **vars(watch.took())}
    return {PLANTED: True, **vars(watch.took()), **found}


def _into_weights(fault: Fault, source: Path, folder: Path) -> dict[str, Any]:
    from safetensors.numpy import load_file, save_file

    if fault.place is not FaultStage.WEIGHTS:
        raise NowhereError("a torch module has no graph")
    arrays = load_file(source)
    fault.change(arrays)
    save_file(arrays, folder / weights.FILE)
    return {}


def _into_graph(fault: Fault, source: Path, folder: Path) -> dict[str, Any]:
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
