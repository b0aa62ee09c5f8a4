"""A fault in a file: what the cache holds is copied, changed, and stays as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pytest_sdperf.faults.fault import Fault, FaultStage, NowhereError


def plant(fault: Fault, source: Path, folder: Path) -> None:
    """Write a graph or weights with a fault.

    Args:
        fault: What goes in.
        source: `model.onnx`, or a safetensors file.
        folder: Takes a file of the same name.

    Raises:
        NowhereError: There is no place for it.
    """
    if source.suffix == ".safetensors":
        _into_weights(fault, source, folder / source.name)
    else:
        _into_graph(fault, source, folder / source.name)


def _into_weights(fault: Fault, source: Path, target: Path) -> None:
    from safetensors.numpy import load_file, save_file

    if fault.place is not FaultStage.WEIGHTS:
        raise NowhereError("a torch module has no graph")
    arrays = load_file(source)
    fault.change(arrays)
    save_file(arrays, target)


def _into_graph(fault: Fault, source: Path, target: Path) -> None:
    import onnx_ir as ir

    model = ir.load(source)
    if fault.place is FaultStage.WEIGHTS:
        _change_initializers(fault, model)
    else:
        fault.change(model)
    ir.save(model, target, external_data=f"{target.name}.data")


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
