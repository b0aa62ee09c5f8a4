"""Reference definitions of the ops that ONNX Runtime has for CUDA only, so that a fused graph runs on a CPU.

A lowered graph proves the rewrite that made it: weights, wiring and attributes. It does not prove the CUDA kernels.
The definitions follow these where it can be seen in a result: GroupNorm and BiasSplitGelu compute in float32 whatever
the type of their input, and tensors are added in their own type. What a kernel refuses is refused here too.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir

from pytest_sdperf.core.errors import BuildError
from pytest_sdperf.fusing import contrib_forms

_OLDEST_OPSET = 17

_Size: TypeAlias = int | ir.SymbolicDim | None


def lower(model: ir.Model) -> collections.Counter[str]:
    """Replace every op of the main graph that has no CPU kernel in ONNX Runtime by its definition, in place.

    Sizes that the graph leaves open stay open. New nodes carry the metadata of the node that they replace, and their
    names begin with the name of its first output.

    Args:
        model: A fused model of opset 17 or later.

    Returns:
        The number of nodes that were lowered, by `domain::op_type`.

    Raises:
        BuildError: A node has a form that no CUDA kernel takes, or the opset is too old. The model is unchanged.
    """
    found = [(node, form) for node in model.graph if (form := contrib_forms.find_form(node)) is not None]
    opset = model.graph.opset_imports.get("", 0)
    if found and opset < _OLDEST_OPSET:
        raise BuildError(
            f"a graph of opset {opset} cannot be lowered for a CPU; supported: opset {_OLDEST_OPSET} and later."
        )
    for node, form in found:
        contrib_forms.check(node, form)
    for node, form in found:
        site = _Site(node, form.by_name(node), opset=opset)
        site.replace(_DEFINITIONS[node.op_type](site))
    return collections.Counter(f"{node.domain}::{node.op_type}" for node, _ in found)


class _Site:
    """A node that is being lowered, and the nodes that will stand in its place."""

    def __init__(self, node: ir.Node, inputs: Mapping[str, ir.Value], *, opset: int) -> None:
        self.node = node
        self.inputs = inputs
        self._opset = opset
        self._tape = ir.tape.Tape()

    def op(self, op_type: str, *inputs: ir.Value, shape: Iterable[_Size] | None = None, **attributes: Any) -> ir.Value:
        """Add a node; its output has the type of the first input, as most ops give it."""
        # Named by hand: a name that onnx_ir makes up can be the name of an initializer.
        name = f"{self.node.outputs[0].name}/lowered_{len(self._tape.nodes)}"
        known = None if shape is None else ir.Shape(shape)
        output = ir.Value(name=name, type=inputs[0].type if inputs else None, shape=known)
        metadata = dict(self.node.metadata_props)
        return self._tape.op(op_type, inputs, attributes, name=name, output=output, metadata_props=metadata)

    def same(self, op_type: str, *inputs: ir.Value, **attributes: Any) -> ir.Value:
        """Add a node whose output has the type and the shape of the first input."""
        return self.op(op_type, *inputs, shape=inputs[0].shape, **attributes)

    def integers(self, values: int | list[int]) -> ir.Value:
        """Return a constant of int64."""
        return self._constant(np.asarray(values, dtype=np.int64))

    def number(self, value: float) -> ir.Value:
        """Return a constant of float32."""
        return self._constant(np.asarray(value, dtype=np.float32))

    def _constant(self, array: np.ndarray[Any, Any]) -> ir.Value:
        """Return the initializer that holds an array: one for the whole graph, because its name says what it holds."""
        graph = self.node.graph
        assert graph is not None
        name = f"lowered/{array.dtype}_{array.tolist()}"
        if name not in graph.initializers:
            # `ir.tensor` looks for what an object might be, which is most of the time of a definition.
            tensor = ir.Tensor(array, name=name)
            kind, shape = ir.TensorType(tensor.dtype), ir.Shape(array.shape)
            graph.register_initializer(ir.Value(name=name, type=kind, shape=shape, const_value=tensor))
        return graph.initializers[name]

    def sizes(self, value: ir.Value) -> ir.Value:
        """Return the shape of a value, as the graph finds it when it runs."""
        output = self.op("Shape", value, shape=None if value.shape is None else [len(value.shape)])
        output.type = ir.TensorType(ir.DataType.INT64)
        return output

    def reshape(self, value: ir.Value, sizes: list[int], shape: Iterable[_Size] | None) -> ir.Value:
        """Reshape a value; in `sizes` 0 keeps a size and -1 takes the rest, `shape` is what is known beforehand."""
        return self.op("Reshape", value, self.integers(sizes), shape=shape)

    def transpose(self, value: ir.Value, order: Sequence[int]) -> ir.Value:
        """Permute the axes of a value."""
        shape = value.shape and [value.shape[axis] for axis in order]
        return self.op("Transpose", value, shape=shape, perm=ir.AttrInt64s("perm", list(order)))

    def pick(self, value: ir.Value, index: int, *, axis: int) -> ir.Value:
        """Return one slice of a value, without the axis."""
        shape = value.shape and [size for i, size in enumerate(value.shape) if i != axis]
        return self.op("Gather", value, self.integers(index), shape=shape, axis=axis)

    def mean(self, value: ir.Value, axes: Sequence[int]) -> ir.Value:
        """Return the mean over `axes`, which stay with size 1.

        One axis after the other: over several that are not adjacent, ONNX Runtime's CPU kernel adds up one long row,
        which costs two digits (and time).
        """
        for axis in axes:
            shape = value.shape and [1 if i == axis else size for i, size in enumerate(value.shape)]
            if self._opset < 18:
                value = self.op("ReduceMean", value, shape=shape, axes=ir.AttrInt64s("axes", [axis]), keepdims=1)
            else:
                value = self.op("ReduceMean", value, self.integers([axis]), shape=shape, keepdims=1)
        return value

    def float32(self, value: ir.Value) -> ir.Value:
        """Return a value in float32."""
        if value.dtype == ir.DataType.FLOAT:
            return value
        output = self.same("Cast", value, to=ir.DataType.FLOAT.value)
        output.type = ir.TensorType(ir.DataType.FLOAT)
        return output

    def in_type_of(self, like: ir.Value, value: ir.Value) -> ir.Value:
        """Return a float32 value in the type of another one, which need not be known."""
        if like.dtype == ir.DataType.FLOAT:
            return value
        output = self.same("CastLike", value, like)
        output.type = like.type
        return output

    def replace(self, values: Sequence[ir.Value]) -> None:
        """Put the new nodes in the place of the node; without `values` in front of it, where it stays."""
        graph = self.node.graph
        assert graph is not None
        if not values:
            graph.insert_before(self.node, self._tape.nodes)
            return
        # An optional output that nobody wants is absent, or has no name.
        pairs = [(old, new) for old, new in zip(self.node.outputs, values, strict=False) if old.name]
        old_values, new_values = zip(*pairs, strict=True)
        ir.convenience.replace_nodes_and_values(graph, self.node, [self.node], self._tape.nodes, old_values, new_values)


def _group_norm(site: _Site) -> Sequence[ir.Value]:
    return [_normalised(site, site.inputs["X"])]


def _skip_group_norm(site: _Site) -> Sequence[ir.Value]:
    x, skip, bias = site.inputs["X"], site.inputs["skip"], site.inputs.get("bias")
    added = x if bias is None else site.same("Add", x, bias)
    if skip.shape is not None and len(skip.shape) == 4:
        added = site.same("Add", added, skip)
    else:
        # The rank may be unknown: in (N, H * W, C) every form of a skip broadcasts.
        sizes = site.op("Concat", site.integers([0, -1]), site.sizes(site.inputs["gamma"]), axis=0)
        rows = site.op("Add", site.op("Reshape", added, sizes), site.op("Reshape", skip, sizes))
        added = site.op("Reshape", rows, site.sizes(x), shape=x.shape)
    return [_normalised(site, added), added]


def _normalised(site: _Site, x: ir.Value) -> ir.Value:
    attributes = site.node.attributes
    groups = attributes["groups"].as_int()
    grouped_shape = x.shape and [*x.shape[:3], groups, _quotient(x.shape[3], groups)]
    grouped = site.reshape(site.float32(x), [0, 0, 0, groups, -1], grouped_shape)
    centred = site.same("Sub", grouped, site.mean(grouped, (1, 2, 4)))
    variance = site.mean(site.same("Mul", centred, centred), (1, 2, 4))
    deviation = site.same("Sqrt", site.same("Add", variance, site.number(attributes.get_float("epsilon", 1e-5))))
    normal = site.reshape(site.same("Div", centred, deviation), [0, 0, 0, -1], x.shape)
    scaled = site.same("Add", site.same("Mul", normal, site.inputs["gamma"]), site.inputs["beta"])
    if attributes["activation"].as_int() == 1:
        scaled = site.same("Mul", scaled, site.same("Sigmoid", scaled))
    return site.in_type_of(x, scaled)


def _nhwc_conv(site: _Site) -> Sequence[ir.Value]:
    # Weights are (M, kH, kW, C / group): their axes are in the order of those of the images.
    x, weights = (site.transpose(site.inputs[name], (0, 3, 1, 2)) for name in ("X", "W"))
    bias = [site.inputs["B"]] if "B" in site.inputs else []
    attributes: dict[str, Any] = dict(site.node.attributes)
    return [site.transpose(site.op("Conv", x, weights, *bias, **attributes), (0, 2, 3, 1))]


def _bias_split_gelu(site: _Site) -> Sequence[ir.Value]:
    x = site.inputs["X"]
    added = site.float32(site.same("Add", x, site.inputs["bias"]))
    halves = site.reshape(added, [0, 0, 2, -1], x.shape and [*x.shape[:2], 2, _quotient(x.shape[2], 2)])
    left, right = (site.pick(halves, index, axis=2) for index in (0, 1))
    erf = site.same("Erf", site.same("Div", right, site.number(2**0.5)))
    half = site.same("Mul", right, site.number(0.5))
    gelu = site.same("Mul", half, site.same("Add", erf, site.number(1.0)))
    return [site.in_type_of(x, site.same("Mul", left, gelu))]


def _bias_add(site: _Site) -> Sequence[ir.Value]:
    return [site.same("Add", site.same("Add", site.inputs["X"], site.inputs["bias"]), site.inputs["skip"])]


def _unpacked_attention(site: _Site) -> Sequence[ir.Value]:
    first = 1 if "key" in site.inputs else 0
    packed = site.inputs["key" if first else "query"]
    site.node.resize_inputs(max(3, len(site.node.inputs)))
    for index in range(first, 3):
        heads = site.pick(packed, index - first, axis=3)
        shape = heads.shape and [*heads.shape[:2], _product(heads.shape[2], heads.shape[3])]
        site.node.replace_input_with(index, site.reshape(heads, [0, 0, -1], shape))
    return ()


def _quotient(size: _Size, divisor: int) -> int | None:
    return size // divisor if isinstance(size, int) else None


def _product(first: _Size, second: _Size) -> int | None:
    return first * second if isinstance(first, int) and isinstance(second, int) else None


_DEFINITIONS: Mapping[str, Callable[[_Site], Sequence[ir.Value]]] = {
    "GroupNorm": _group_norm,
    "SkipGroupNorm": _skip_group_norm,
    "NhwcConv": _nhwc_conv,
    "BiasSplitGelu": _bias_split_gelu,
    "BiasAdd": _bias_add,
    "MultiHeadAttention": _unpacked_attention,
}
