"""One node at a time: the shapes of its outputs, and their contents where these are small and known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx
import onnx_ir as ir

from pytest_sdperf.fusing.contents import CONTENTS, ELEMENTWISE, Array, distinct, number
from pytest_sdperf.fusing.inference import output_shapes
from pytest_sdperf.fusing.weightless import is_missing

# Shapes, axes, scales and the mask of a text encoder are smaller; weights are larger or are not looked at.
_LARGEST = 2**16
_SMALL = 64
HIDDEN = -1e4
"""The largest number that an additive mask hides with: the one of old exporters."""
# A causal mask is expanded to every image of a batch.
_LARGEST_RESULT = 2**23


@dataclass(frozen=True, slots=True)
class KnownValue:
    """What is known about a value.

    Attributes:
        shape: Its sizes.
        array: What it holds, if that follows from shapes and constants alone. All elements of a large one are equal.
    """

    shape: tuple[int, ...]
    array: Array | None = None


Knowledge = dict[ir.Value, KnownValue]


def read_initializer(value: ir.Value, known: Knowledge) -> None:
    """Record an initializer: its contents too, if it is an integer, a scalar or a small constant."""
    tensor = value.const_value
    if tensor is not None:
        # What is also an input of the graph is only a default.
        contents = None if value.is_graph_input() else tensor_array(tensor)
        known[value] = KnownValue(tuple(tensor.shape.numpy()), contents)


def tensor_array(tensor: ir.TensorProtocol) -> Array | None:
    """Return the contents of a tensor that is no weight; None for a weight."""
    sizes = tensor.shape.numpy()
    if is_missing(tensor) or tensor.dtype == ir.DataType.STRING:
        return None
    dtype = tensor.dtype.is_floating_point()
    if math.prod(sizes) <= (_SMALL if dtype else _LARGEST):
        return tensor.numpy()
    return _mask(tensor.numpy()) if dtype and len(sizes) >= 2 else None


def _mask(array: Array) -> Array | None:
    """Return a tensor if it is an additive mask: zeros, or zeros and numbers that hide in a square."""
    if not array.size or array.flat[0] != 0:
        return None  # looked at first: a weight is not read as a whole
    if not array.any():
        return np.broadcast_to(array.dtype.type(0), array.shape)
    square = array.shape[-1] == array.shape[-2] and array.size <= _LARGEST
    return array if square and bool(np.all((array == 0) | (array <= HIDDEN))) else None


_MISFITS = (
    ValueError, IndexError, ZeroDivisionError, OverflowError, KeyError, TypeError, RuntimeError,
    onnx.checker.ValidationError, onnx.shape_inference.InferenceError, onnx.defs.SchemaError,
)  # fmt: skip


def evaluate(node: ir.Node, known: Knowledge) -> None:
    """Record what follows for the outputs of a node; nothing where an input's shape is not known."""
    inputs = [None if value is None else known.get(value) for value in node.inputs]
    if any(found is None and value is not None for found, value in zip(inputs, node.inputs, strict=True)):
        return
    try:
        with np.errstate(all="ignore"):
            results = _results(node, inputs)
    except _MISFITS:
        return  # sizes that do not fit: whoever asks for this value is told that its shape is not known
    for value, result in zip(node.outputs, results, strict=False):
        if result is not None:
            known[value] = result


def _results(node: ir.Node, inputs: Sequence[KnownValue | None]) -> Sequence[KnownValue | None]:
    if not node.domain:
        result = _constant(node) if node.op_type == "Constant" else _computed(node, inputs)
        if result is not None:
            return [result]
    pairs = [None if found is None else (found.shape, found.array) for found in inputs]
    return [None if shape is None else KnownValue(shape) for shape in output_shapes(node, pairs)]


def _computed(node: ir.Node, inputs: Sequence[KnownValue | None]) -> KnownValue | None:
    """Return the one output of a node if its contents are known."""
    given = [found for found in inputs if found is not None]
    if node.op_type == "Shape":
        end = node.attributes["end"].as_int() if "end" in node.attributes else None
        return _typed(np.array(given[0].shape[number(node, "start", 0) : end], dtype=np.int64), node)
    if any(found.array is None for found in given):
        return None
    if node.op_type in CONTENTS:
        return _typed(CONTENTS[node.op_type](node, [None if found is None else found.array for found in inputs]), node)
    if node.op_type not in ELEMENTWISE:
        return None
    function, arrays = ELEMENTWISE[node.op_type], [found.array for found in given if found.array is not None]
    shape = np.broadcast_shapes(*(array.shape for array in arrays))
    if math.prod(shape) <= _LARGEST_RESULT:
        return _typed(function(*arrays), node)
    if any(distinct(array).size != 1 for array in arrays):
        return None  # it would be worth no memory; one whose elements are all equal needs none
    return _typed(np.broadcast_to(function(*(array.flat[0] for array in arrays)), shape), node)


def _typed(result: Array, node: ir.Node) -> KnownValue:
    """Give a result the type that the graph says: numpy promotes more than onnx does."""
    array, dtype = np.asarray(result), node.outputs[0].dtype
    if dtype is not None and dtype != ir.DataType.UNDEFINED and array.dtype != dtype.numpy():
        array = np.broadcast_to(distinct(array).astype(dtype.numpy()), array.shape)
    return KnownValue(array.shape, array)


def _constant(node: ir.Node) -> KnownValue | None:
    attribute = next(iter(node.attributes.values()))
    if attribute.type == ir.AttributeType.TENSOR:
        tensor = attribute.as_tensor()
        return KnownValue(tuple(tensor.shape.numpy()), tensor_array(tensor))
    if attribute.name in ("value_int", "value_ints", "value_float", "value_floats"):
        return _typed(np.array(attribute.value, dtype=np.int64 if "int" in attribute.name else np.float32), node)
    return None
