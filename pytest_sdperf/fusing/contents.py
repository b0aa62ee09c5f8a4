"""What operators compute, for the small tensors from which a graph works out shapes, axes, scales and masks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir

Array: TypeAlias = np.ndarray[Any, Any]
Inputs = Sequence["Array | None"]


def distinct(array: Array) -> Array:
    """Return an array without the repetitions that broadcasting made: what holds for it holds for all elements."""
    return array[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in array.strides)]


def equal(first: Array, second: Array) -> bool:
    """Say whether two arrays have the same shape and elements; a NaN equals a NaN."""
    if first.shape != second.shape:
        return False
    first, second = distinct(first), distinct(second)
    return bool(np.all((first == second) | ((first != first) & (second != second))))  # noqa: PLR0124 NaN


def reshaped(shape: Sequence[int], wanted: Sequence[int], *, allowzero: bool) -> tuple[int, ...]:
    """Return the sizes that Reshape gives.

    Raises:
        ValueError, ZeroDivisionError, IndexError: They do not fit.
    """
    sizes = [shape[i] if size == 0 and not allowzero else int(size) for i, size in enumerate(wanted)]
    if -1 in sizes:
        sizes[sizes.index(-1)] = math.prod(shape) // -math.prod(sizes)
    if math.prod(sizes) != math.prod(shape):
        raise ValueError("sizes do not fit")
    return tuple(sizes)


def number(node: ir.Node, name: str, default: int) -> int:
    """Return an integer attribute."""
    return node.attributes[name].as_int() if name in node.attributes else default


# ------------------------------------------------------------------------------------------------------ one by one


def _divide(first: Array, second: Array) -> Array:
    if not np.issubdtype(first.dtype, np.integer):
        return np.asarray(first / second)
    if not np.all(second):
        raise ZeroDivisionError
    return np.asarray(np.trunc(first / second))


ELEMENTWISE: Mapping[str, Callable[..., Any]] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": _divide, "Pow": np.power, "Sqrt": np.sqrt,
    "Neg": np.negative, "Abs": np.abs, "Floor": np.floor, "Ceil": np.ceil, "Reciprocal": np.reciprocal,
    "Equal": np.equal, "Less": np.less, "LessOrEqual": np.less_equal, "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal, "Not": np.logical_not, "And": np.logical_and, "Or": np.logical_or,
    "Where": np.where, "Min": lambda *arrays: np.minimum.reduce(np.broadcast_arrays(*arrays)),
    "Max": lambda *arrays: np.maximum.reduce(np.broadcast_arrays(*arrays)),
}  # fmt: skip
"""Operators that treat every element alike, on arrays or numbers."""

# ------------------------------------------------------------------------------------------------------ as a whole

_Contents = Callable[[ir.Node, Inputs], Any]


def _given(inputs: Inputs, index: int) -> Array | None:
    return inputs[index] if index < len(inputs) else None


def _data(inputs: Inputs, index: int = 0) -> Array:
    array = inputs[index]
    if array is None:
        raise ValueError("an input that is needed is left out")
    return array


def _axes(node: ir.Node, inputs: Inputs) -> tuple[int, ...]:
    array = _given(inputs, 1)
    if array is not None:
        return tuple(int(axis) for axis in np.atleast_1d(array))
    return tuple(node.attributes["axes"].as_ints()) if "axes" in node.attributes else ()


def _cast(node: ir.Node, inputs: Inputs) -> Array:
    data, dtype = _data(inputs), ir.DataType(node.attributes["to"].as_int()).numpy()
    return np.broadcast_to(distinct(data).astype(dtype), data.shape)


def _concat(node: ir.Node, inputs: Inputs) -> Array:
    arrays = [_data(inputs, index) for index in range(len(inputs))]
    return np.concatenate(arrays, axis=node.attributes["axis"].as_int())


def _filled(node: ir.Node, inputs: Inputs) -> Array:
    attribute = node.attributes.get("value")
    value = np.zeros((), np.float32) if attribute is None else attribute.as_tensor().numpy().reshape(())
    return np.broadcast_to(value, tuple(int(size) for size in _data(inputs)))


def _expand(_: ir.Node, inputs: Inputs) -> Array:
    data, wanted = _data(inputs), tuple(int(size) for size in _data(inputs, 1))
    return np.broadcast_to(data, np.broadcast_shapes(data.shape, wanted))


def _gather(node: ir.Node, inputs: Inputs) -> Array:
    return np.asarray(np.take(_data(inputs), _data(inputs, 1).astype(np.int64), axis=number(node, "axis", 0)))


def _range(_: ir.Node, inputs: Inputs) -> Array:
    start, limit, delta = (_data(inputs, index).item() for index in range(3))
    return np.arange(start, limit, delta, dtype=_data(inputs).dtype)


def _reduce(function: Callable[..., Any]) -> _Contents:
    def reduce(node: ir.Node, inputs: Inputs) -> Any:
        axes = _axes(node, inputs)
        if not axes and number(node, "noop_with_empty_axes", 0):
            return _data(inputs)
        return function(_data(inputs), axis=axes or None, keepdims=bool(number(node, "keepdims", 1)))

    return reduce


def _reshape(node: ir.Node, inputs: Inputs) -> Array:
    data, wanted = _data(inputs), [int(size) for size in _data(inputs, 1)]
    return data.reshape(reshaped(data.shape, wanted, allowzero=bool(number(node, "allowzero", 0))))


def _size(_: ir.Node, inputs: Inputs) -> Array:
    return np.array(_data(inputs).size, dtype=np.int64)


def _slice(_: ir.Node, inputs: Inputs) -> Array:
    data, starts, ends = (_data(inputs, index) for index in range(3))
    axes, steps = _given(inputs, 3), _given(inputs, 4)
    axes = np.arange(len(starts)) if axes is None else axes
    steps = np.ones(len(starts), dtype=np.int64) if steps is None else steps
    index = [slice(None)] * data.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        index[int(axis)] = slice(int(start), int(end), int(step))
    return data[tuple(index)]


def _squeeze(node: ir.Node, inputs: Inputs) -> Array:
    return np.squeeze(_data(inputs), _axes(node, inputs) or None)


def _transpose(node: ir.Node, inputs: Inputs) -> Array:
    return np.transpose(_data(inputs), node.attributes["perm"].as_ints() if "perm" in node.attributes else None)


def _triangle(node: ir.Node, inputs: Inputs) -> Array:
    diagonal = _given(inputs, 1)
    keep = np.triu if number(node, "upper", 1) else np.tril
    return keep(_data(inputs), 0 if diagonal is None else int(diagonal.item()))


def _unsqueeze(node: ir.Node, inputs: Inputs) -> Array:
    return np.expand_dims(_data(inputs), _axes(node, inputs))


CONTENTS: Mapping[str, _Contents] = {
    "Cast": _cast,
    "Concat": _concat,
    "ConstantOfShape": _filled,
    "Expand": _expand,
    "Gather": _gather,
    "Identity": lambda node, inputs: _data(inputs),
    "Range": _range,
    "ReduceProd": _reduce(np.prod),
    "ReduceSum": _reduce(np.sum),
    "Reshape": _reshape,
    "Size": _size,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "Trilu": _triangle,
    "Unsqueeze": _unsqueeze,
}
"""Operators on whole arrays; an input that is left out is None."""
