"""Random numbers in place of weights: as large and as spread as these, and nobody's."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import onnx_ir as ir

from pytest_sdperf.core.files.arrays import at_most_two_values

_FLOATS = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.DOUBLE)


def numbers_like(array: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Return random numbers with mean and deviation of an array.

    What is no weight stays: integers, and floating-point numbers of which there are two at most, as in a mask, the
    scales of a resize, or an epsilon.
    """
    if array.dtype.kind != "f" or at_most_two_values(array):
        return array
    mean, deviation = array.mean(dtype=np.float64), array.std(dtype=np.float64)
    drawn = generator.standard_normal(array.shape, dtype=np.float32)
    result: np.ndarray = (drawn * deviation + mean).astype(array.dtype)
    return result


def redraw(source: Path, target: Path, *, seed: int) -> None:
    """Write a graph again with random numbers for weights.

    Args:
        source: The graph; its weights lie beside it.
        target: The new one; weights lie in a file beside it too.
        seed: Of the numbers; those of each weight depend on its name too, so that equal ones do not stay equal.
    """
    model = ir.load(source)
    for name, value in model.graph.initializers.items():
        if value.const_value is not None and value.dtype in _FLOATS:
            value.const_value = _drawn(value.const_value, name, seed)
    for node in model.graph:
        attribute = node.attributes.get("value") if node.op_type == "Constant" and not node.domain else None
        if attribute is not None and attribute.as_tensor().dtype in _FLOATS:
            tensor = _drawn(attribute.as_tensor(), str(node.outputs[0].name), seed)
            node.attributes["value"] = ir.AttrTensor("value", tensor)
    ir.save(model, target, external_data=f"{target.name}.data")


def redraw_weights(source: Path, target: Path, *, seed: int) -> None:
    """Write a safetensors file again with random numbers.

    Args:
        source: The file.
        target: The new one.
        seed: As for `redraw`.
    """
    from safetensors.numpy import load_file, save_file

    save_file({name: numbers_like(array, _generator(seed, name)) for name, array in load_file(source).items()}, target)


def _generator(seed: int, name: str) -> np.random.Generator:
    digest = hashlib.sha256(f"{seed} {name}".encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "little"))


def _drawn(tensor: ir.TensorProtocol, name: str, seed: int) -> ir.LazyTensor:
    """Return random numbers that are drawn when they are written: all of a model's need not be in memory at once."""

    def draw() -> ir.TensorProtocol:
        return ir.tensor(numbers_like(tensor.numpy(), _generator(seed, name)), name=name)

    return ir.LazyTensor(draw, dtype=tensor.dtype, shape=ir.Shape(tensor.shape.numpy()), name=name)
