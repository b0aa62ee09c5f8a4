"""The shapes of the outputs of one node from those of its inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx
import onnx_ir as ir

from pytest_sdperf.fusing.contents import Array, number, reshaped

Shape = tuple[int, ...]
Inputs = Sequence["tuple[Shape, Array | None] | None"]
"""Shape and, if it is known, contents of every input; None for one that is left out."""


def output_shapes(node: ir.Node, inputs: Inputs) -> Sequence[Shape | None]:
    """Return the shape of every output, None where it is not known.

    The schema of onnx knows every operator, but asking it takes a hundred times as long as the rules below.

    Raises:
        ValueError: The shapes of the inputs do not fit.
        onnx.shape_inference.InferenceError, onnx.defs.SchemaError, onnx.checker.ValidationError: Likewise.
    """
    if node.domain:
        return _fused(node, inputs)
    if node.op_type in _LIKE_FIRST:
        return [_shape(inputs, 0)]
    if node.op_type in _BROADCAST:
        return [np.broadcast_shapes(*(found[0] for found in inputs if found is not None))]
    if node.op_type in _RULES:
        return [_RULES[node.op_type](node, inputs)]
    return _by_schema(node, inputs)


_BROADCAST = frozenset({"Add", "Sub", "Mul", "Div", "Pow", "Where", "Equal"})
_LIKE_FIRST = frozenset(
    {"Sigmoid", "Softmax", "Erf", "Cast", "Identity", "Sin", "Cos", "Exp", "IsNaN", "Sqrt", "Gelu", "Tanh",
     "InstanceNormalization", "GroupNormalization", "LayerNormalization"}
)  # fmt: skip
_FUSED_LIKE_FIRST = frozenset(
    {"GroupNorm", "SkipGroupNorm", "SkipLayerNormalization", "Gelu", "QuickGelu", "BiasGelu", "BiasAdd"}
)


# Which outputs have the shape of the first input: further ones return the sum that is normalised.
_SUMS: Mapping[str, tuple[int, ...]] = {"SkipLayerNormalization": (0, 3), "SkipGroupNorm": (0, 1)}


def _fused(node: ir.Node, inputs: Inputs) -> list[Shape | None]:
    """Return the shapes of an operator of ONNX Runtime, which a graph that was fused before may hold."""
    if node.op_type in _FUSED_RULES:
        return [_FUSED_RULES[node.op_type](node, inputs)]
    if node.op_type not in _FUSED_LIKE_FIRST:
        return []
    like = _SUMS.get(node.op_type, (0,))
    return [_shape(inputs, 0) if index in like else None for index in range(len(node.outputs))]


def _nhwc_conv(node: ir.Node, inputs: Inputs) -> Shape:
    (batch, *sizes, _), (outputs, *kernel, _) = _shape(inputs, 0), _shape(inputs, 1)
    strides, dilations = (_integers(node, name, (1,) * len(sizes)) for name in ("strides", "dilations"))
    pads = _integers(node, "pads", (0, 0) * len(sizes))
    if "auto_pad" in node.attributes and node.attributes["auto_pad"].as_string() not in ("NOTSET", ""):
        raise ValueError("the padding is chosen by the operator")
    whole = [size + sum(pads[axis :: len(sizes)]) for axis, size in enumerate(sizes)]
    windows = zip(whole, kernel, dilations, strides, strict=True)
    return (batch, *((size - (width - 1) * gap - 1) // step + 1 for size, width, gap, step in windows), outputs)


def _integers(node: ir.Node, name: str, default: Sequence[int]) -> Sequence[int]:
    return node.attributes[name].as_ints() if name in node.attributes else default


def _bias_split_gelu(_: ir.Node, inputs: Inputs) -> Shape:
    *sizes, channels = _shape(inputs, 0)
    return (*sizes, channels // 2)


def _attention(_: ir.Node, inputs: Inputs) -> Shape:
    query = _shape(inputs, 0)
    if len(query) == 5:  # query, key and value of every head
        batch, length, heads, _count, size = query
        return (batch, length, heads * size)
    value = inputs[2] if len(inputs) > 2 else None
    return query if value is None or len(value[0]) != 3 else (*query[:-1], value[0][-1])


_FUSED_RULES: Mapping[str, Callable[[ir.Node, Inputs], Shape]] = {
    "BiasSplitGelu": _bias_split_gelu,
    "MultiHeadAttention": _attention,
    "NhwcConv": _nhwc_conv,
}


def _shape(inputs: Inputs, index: int) -> Shape:
    found = inputs[index]
    if found is None:
        raise ValueError("an input that is needed is left out")
    return found[0]


def _concat(node: ir.Node, inputs: Inputs) -> Shape:
    shapes = [_shape(inputs, index) for index in range(len(inputs))]
    axis = node.attributes["axis"].as_int() % len(shapes[0])
    if len({(*shape[:axis], *shape[axis + 1 :]) for shape in shapes}) != 1:
        raise ValueError("sizes do not fit")
    return (*shapes[0][:axis], sum(shape[axis] for shape in shapes), *shapes[0][axis + 1 :])


def _gather(node: ir.Node, inputs: Inputs) -> Shape:
    data, indices = _shape(inputs, 0), _shape(inputs, 1)
    axis = number(node, "axis", 0) % len(data)
    return (*data[:axis], *indices, *data[axis + 1 :])


def _matmul(_: ir.Node, inputs: Inputs) -> Shape:
    first, second = _shape(inputs, 0), _shape(inputs, 1)
    if len(second) < 2 or len(first) < 2 or first[-1] != second[-2]:
        raise ValueError("sizes do not fit")
    return (*np.broadcast_shapes(first[:-2], second[:-2]), first[-2], second[-1])


def _reshape(node: ir.Node, inputs: Inputs) -> Shape:
    wanted = inputs[1]
    if wanted is None or wanted[1] is None:
        raise ValueError("the shape is not known")
    sizes = [int(size) for size in wanted[1]]
    return reshaped(_shape(inputs, 0), sizes, allowzero=bool(number(node, "allowzero", 0)))


def _transpose(node: ir.Node, inputs: Inputs) -> Shape:
    shape = _shape(inputs, 0)
    perm = node.attributes["perm"].as_ints() if "perm" in node.attributes else tuple(reversed(range(len(shape))))
    return tuple(shape[axis] for axis in perm)


_RULES: Mapping[str, Callable[[ir.Node, Inputs], Shape]] = {
    "Concat": _concat,
    "Gather": _gather,
    "MatMul": _matmul,
    "Reshape": _reshape,
    "Transpose": _transpose,
}


def _by_schema(node: ir.Node, inputs: Inputs) -> list[Shape | None]:
    version = node.graph.opset_imports.get(node.domain) if node.graph is not None else None
    schema = onnx.defs.get_schema(node.op_type, version or onnx.defs.onnx_opset_version(), node.domain)
    types: dict[str, onnx.TypeProto] = {}
    contents: dict[str, onnx.TensorProto] = {}
    for value, found in zip(node.inputs, inputs, strict=True):
        if value is None or found is None or value.name is None:
            continue
        shape, array = found
        dtype = value.dtype or (ir.DataType.FLOAT if array is None else ir.DataType.from_numpy(array.dtype))
        types[value.name] = onnx.helper.make_tensor_type_proto(int(dtype), shape)
        if array is not None:
            contents[value.name] = onnx.numpy_helper.from_array(np.ascontiguousarray(array))
    inferred = onnx.shape_inference.infer_node_outputs(schema, ir.to_proto(node), types, contents)
    return [_from_type(inferred.get(value.name or "")) for value in node.outputs]


def _from_type(found: onnx.TypeProto | None) -> Shape | None:
    if found is None or not found.tensor_type.HasField("shape"):
        return None
    dims = found.tensor_type.shape.dim
    return tuple(dim.dim_value for dim in dims) if all(dim.HasField("dim_value") for dim in dims) else None
