"""One node at a time: the shapes of its outputs, and their contents where these are small and known."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

Array = np.ndarray[Any, Any]

# Shapes, axes, scales and the mask of a text encoder are smaller; weights are larger or are not looked at.
_LARGEST = 2**16
# A causal mask is expanded to every image of a batch.
_LARGEST_RESULT = 2**23


@dataclass(frozen=True, slots=True)
class Known:
    """What is known about a value.

    Attributes:
        shape: Its sizes.
        array: What it holds, if that follows from shapes and constants alone. All elements of a large one are equal.
    """

    shape: tuple[int, ...]
    array: Array | None = None


Knowledge = dict[ir.Value, Known]


def read_initializer(value: ir.Value, known: Knowledge) -> None:
    """Record an initializer: its contents too, if it is an integer, a scalar or a small constant."""
    tensor = value.const_value
    if tensor is None:
        return
    shape = tuple(int(size) for size in tensor.shape)
    known[value] = Known(shape, tensor_array(tensor))


def tensor_array(tensor: ir.TensorProtocol) -> Array | None:
    """Return the contents of a tensor that is no weight; None for a weight."""
    size = math.prod(int(size) for size in tensor.shape)
    if tensor.metadata_props.get("weightless") or tensor.dtype == ir.DataType.STRING:
        return None
    if size <= _LARGEST and (size <= 64 or not tensor.dtype.is_floating_point()):
        return tensor.numpy()
    if tensor.dtype.is_floating_point() and len(tensor.shape) >= 2:
        return _mask(tensor.numpy())
    return None


def _mask(array: Array) -> Array | None:
    """Return a tensor if it is an additive mask: zeros, or zeros and very negative numbers in a square."""
    if not array.size or array.flat[0] != 0:
        return None  # looked at first: a weight is not read as a whole
    if not array.any():
        return np.broadcast_to(array.dtype.type(0), array.shape)
    square = array.shape[-1] == array.shape[-2] and array.size <= _LARGEST
    return array if square and bool(np.all((array == 0) | (array < -1e4))) else None


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
        results = _results(node, [found for found in inputs if found is not None], inputs, known)
    except _MISFITS:
        return  # sizes that do not fit: whoever asks for this value is told that its shape is not known
    for value, result in zip(node.outputs, results, strict=False):
        if result is not None:
            known[value] = result


def _results(
    node: ir.Node, given: Sequence[Known], inputs: Sequence[Known | None], known: Knowledge
) -> Sequence[Known | None]:
    op = node.op_type
    if op == "Constant":
        return [_constant(node)]
    if op == "Shape":
        start, end = _int(node, "start", 0), _int(node, "end", None)
        return [_array(np.array(given[0].shape[start:end], dtype=np.int64))]
    arrays = [found.array for found in given]
    if op in _CONTENTS and all(array is not None for array in arrays):
        contents = [array for array in arrays if array is not None]
        if not _too_large(node, given):
            return [_array(_CONTENTS[op](node, contents))]
        if all(_uniform(array) for array in contents):
            number = _ELEMENTWISE[op](*(array.flat[0] for array in contents))
            return [_array(np.broadcast_to(number, np.broadcast_shapes(*(array.shape for array in contents))))]
    if op in _SHAPES:
        return [Known(shape) for shape in _SHAPES[op](node, inputs)]
    return _by_schema(node, inputs)


def _array(array: Any) -> Known:
    array = np.asarray(array)
    return Known(array.shape, array)


def _too_large(node: ir.Node, given: Sequence[Known]) -> bool:
    """Say whether an elementwise result would be worth no memory; one whose elements are all equal needs none."""
    if node.op_type not in _ELEMENTWISE:
        return False
    return math.prod(np.broadcast_shapes(*(found.shape for found in given))) > _LARGEST_RESULT


def distinct(array: Array) -> Array:
    """Return an array without the repetitions that broadcasting made: what holds for it holds for all elements."""
    return array[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in array.strides)]


def _uniform(array: Array) -> bool:
    """Say whether an array is one number, repeated without using memory."""
    return distinct(array).size == 1


def _int(node: ir.Node, name: str, default: Any) -> Any:
    attribute = node.attributes.get(name)
    return default if attribute is None else attribute.value


def _constant(node: ir.Node) -> Known | None:
    attribute = next(iter(node.attributes.values()))
    if attribute.type == ir.AttributeType.TENSOR:
        tensor = attribute.as_tensor()
        return Known(tuple(int(size) for size in tensor.shape), tensor_array(tensor))
    if attribute.name in ("value_int", "value_ints", "value_float", "value_floats"):
        dtype = np.int64 if "int" in attribute.name else np.float32
        return _array(np.array(attribute.value, dtype=dtype))
    return None


# ------------------------------------------------------------------------------------------------- contents

Contents = Callable[[ir.Node, list[Array]], Any]


def _elementwise(function: Callable[..., Any]) -> Contents:
    return lambda node, arrays: function(*arrays)


def _divide(first: Array, second: Array) -> Array:
    if np.issubdtype(first.dtype, np.integer):
        return np.asarray(np.trunc(first / second)).astype(first.dtype)
    return np.asarray(first / second)


def _cast(node: ir.Node, arrays: list[Array]) -> Array:
    return arrays[0].astype(ir.DataType(node.attributes["to"].as_int()).numpy())


def _slice(node: ir.Node, arrays: list[Array]) -> Array:
    data, starts, ends = arrays[:3]
    axes = arrays[3] if len(arrays) > 3 else np.arange(len(starts))
    steps = arrays[4] if len(arrays) > 4 else np.ones(len(starts), dtype=np.int64)
    index = [slice(None)] * data.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        index[int(axis)] = slice(int(start), int(end), int(step))
    return data[tuple(index)]


def _axes(node: ir.Node, arrays: Sequence[Array]) -> tuple[int, ...]:
    if len(arrays) > 1:
        return tuple(int(axis) for axis in np.atleast_1d(arrays[1]))
    return tuple(node.attributes["axes"].as_ints()) if "axes" in node.attributes else ()


def _unsqueeze(node: ir.Node, arrays: list[Array]) -> Array:
    axes = _axes(node, arrays)
    return np.expand_dims(arrays[0], axes)


def _squeeze(node: ir.Node, arrays: list[Array]) -> Array:
    axes = _axes(node, arrays)
    return np.squeeze(arrays[0], axes or None)


def _filled(node: ir.Node, arrays: list[Array]) -> Array:
    attribute = node.attributes.get("value")
    value = np.zeros((), np.float32) if attribute is None else attribute.as_tensor().numpy().reshape(())
    return np.broadcast_to(value, tuple(int(size) for size in arrays[0]))


def _expand(node: ir.Node, arrays: list[Array]) -> Array:
    shape = np.broadcast_shapes(arrays[0].shape, tuple(int(size) for size in arrays[1]))
    return np.broadcast_to(arrays[0], shape)


def _reshaped(shape: Sequence[int], wanted: Sequence[int], *, allowzero: bool) -> tuple[int, ...]:
    sizes = [shape[i] if size == 0 and not allowzero else int(size) for i, size in enumerate(wanted)]
    if -1 in sizes:
        rest = -math.prod(sizes)
        sizes[sizes.index(-1)] = math.prod(shape) // rest
    if math.prod(sizes) != math.prod(shape):
        raise ValueError("sizes do not fit")
    return tuple(sizes)


def _reshape(node: ir.Node, arrays: list[Array]) -> Array:
    allowzero = bool(_int(node, "allowzero", 0))
    return arrays[0].reshape(_reshaped(arrays[0].shape, arrays[1], allowzero=allowzero))


def _gather(node: ir.Node, arrays: list[Array]) -> Array:
    return np.take(arrays[0], arrays[1].astype(np.int64), axis=_int(node, "axis", 0))


def _reduce(function: Callable[..., Any]) -> Contents:
    def reduce(node: ir.Node, arrays: list[Array]) -> Any:
        return function(arrays[0], axis=_axes(node, arrays) or None, keepdims=bool(_int(node, "keepdims", 1)))

    return reduce


_ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": _divide, "Pow": np.power, "Mod": np.mod,
    "Sqrt": np.sqrt, "Neg": np.negative, "Abs": np.abs, "Floor": np.floor, "Ceil": np.ceil, "Reciprocal": np.reciprocal,
    "Equal": np.equal, "Less": np.less, "LessOrEqual": np.less_equal, "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal, "Not": np.logical_not, "And": np.logical_and, "Or": np.logical_or,
    "Where": np.where, "Min": lambda *a: np.minimum.reduce(a), "Max": lambda *a: np.maximum.reduce(a),
}  # fmt: skip

_CONTENTS: dict[str, Contents] = {
    **{name: _elementwise(function) for name, function in _ELEMENTWISE.items()},
    "Identity": lambda node, arrays: arrays[0],
    "Cast": _cast,
    "Concat": lambda node, arrays: np.concatenate(arrays, axis=node.attributes["axis"].as_int()),
    "ConstantOfShape": _filled,
    "Expand": _expand,
    "Gather": _gather,
    "Range": lambda node, arrays: np.arange(*(array.item() for array in arrays), dtype=arrays[0].dtype),
    "ReduceProd": _reduce(np.prod),
    "ReduceSum": _reduce(np.sum),
    "Reshape": _reshape,
    "Size": lambda node, arrays: np.array(arrays[0].size, dtype=np.int64),
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Transpose": lambda node, arrays: np.transpose(arrays[0], _int(node, "perm", None)),
    "Trilu": lambda node, arrays: (np.triu if _int(node, "upper", 1) else np.tril)(arrays[0], *map(int, arrays[1:])),
    "Unsqueeze": _unsqueeze,
}

# --------------------------------------------------------------------------------------------------- shapes

ShapeOf = Callable[[ir.Node, Sequence["Known | None"]], Sequence[tuple[int, ...]]]


def _first(node: ir.Node, inputs: Sequence[Known | None]) -> list[tuple[int, ...]]:
    assert inputs[0] is not None
    return [inputs[0].shape]


def _broadcast(node: ir.Node, inputs: Sequence[Known | None]) -> list[tuple[int, ...]]:
    return [np.broadcast_shapes(*(found.shape for found in inputs if found is not None))]


def _matmul(node: ir.Node, inputs: Sequence[Known | None]) -> list[tuple[int, ...]]:
    first, second = (found.shape for found in inputs if found is not None)
    if len(second) < 2 or len(first) < 2 or first[-1] != second[-2]:
        raise ValueError("sizes do not fit")
    return [(*np.broadcast_shapes(first[:-2], second[:-2]), first[-2], second[-1])]


def _transpose(node: ir.Node, inputs: Sequence[Known | None]) -> list[tuple[int, ...]]:
    shape = _first(node, inputs)[0]
    perm = _int(node, "perm", tuple(reversed(range(len(shape)))))
    return [tuple(shape[axis] for axis in perm)]


def _reshape_shape(node: ir.Node, inputs: Sequence[Known | None]) -> list[tuple[int, ...]]:
    wanted = inputs[1]
    if wanted is None or wanted.array is None:
        raise ValueError("the shape is not known")
    shape = _first(node, inputs)[0]
    return [_reshaped(shape, [int(size) for size in wanted.array], allowzero=bool(_int(node, "allowzero", 0)))]


def _gather_shape(node: ir.Node, inputs: Sequence[Known | None]) -> list[tuple[int, ...]]:
    data, indices = (found.shape for found in inputs if found is not None)
    axis = _int(node, "axis", 0) % len(data)
    return [(*data[:axis], *indices, *data[axis + 1 :])]


def _concat(node: ir.Node, inputs: Sequence[Known | None]) -> list[tuple[int, ...]]:
    shapes = [list(found.shape) for found in inputs if found is not None]
    axis = node.attributes["axis"].as_int()
    whole = shapes[0]
    whole[axis] += sum(shape[axis] for shape in shapes[1:])
    return [tuple(whole)]


_SHAPES: dict[str, ShapeOf] = {
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Pow", "Where", "Equal"), _broadcast),
    **dict.fromkeys(
        ("Sigmoid", "Softmax", "Erf", "Cast", "Identity", "Sin", "Cos", "Exp", "IsNaN", "Sqrt", "Gelu", "QuickGelu",
         "InstanceNormalization", "GroupNormalization", "GroupNorm", "SkipGroupNorm", "LayerNormalization", "Tanh"),
        _first,
    ),
    "MatMul": _matmul,
    "Transpose": _transpose,
    "Reshape": _reshape_shape,
    "Concat": _concat,
    "Gather": _gather_shape,
}  # fmt: skip


def _by_schema(node: ir.Node, inputs: Sequence[Known | None]) -> Sequence[Known | None]:
    """Ask the schema of the operator, as onnx defines it."""
    version = node.graph.opset_imports.get(node.domain) if isinstance(node.graph, ir.Graph) else None
    schema = onnx.defs.get_schema(node.op_type, version or onnx.defs.onnx_opset_version(), node.domain)
    types, contents = {}, {}
    for value, found in zip(node.inputs, inputs, strict=True):
        if value is not None and found is not None:
            dtype = value.dtype or (
                ir.DataType.FLOAT if found.array is None else ir.DataType.from_numpy(found.array.dtype)
            )
            types[value.name] = onnx.helper.make_tensor_type_proto(int(dtype), found.shape)
            if found.array is not None:
                contents[value.name] = onnx.numpy_helper.from_array(np.ascontiguousarray(found.array))
    inferred = onnx.shape_inference.infer_node_outputs(schema, ir.to_proto(node), types, contents)
    return [_from_type(inferred.get(value.name or "")) for value in node.outputs]


def _from_type(found: onnx.TypeProto | None) -> Known | None:
    if found is None or not found.tensor_type.HasField("shape"):
        return None
    dims = found.tensor_type.shape.dim
    return Known(tuple(dim.dim_value for dim in dims)) if all(dim.HasField("dim_value") for dim in dims) else None
