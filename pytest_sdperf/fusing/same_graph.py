"""Whether two files hold one graph at two sizes: the same nodes, wires, attributes and weights.

A graph whose shapes are fixed takes one size alone. What is proven of it at a small size holds at another one where
nothing but numbers that say sizes differs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir

_MOST = 16  # elements of a constant that says sizes or places
# Operator -> its inputs that say sizes or places.
_SIZES = {
    "Concat": range(16), "ConstantOfShape": (0,), "Expand": (1,), "Range": (0, 1), "Reshape": (1,), "Resize": (3,),
    "Slice": (1, 2), "Split": (1,), "Tile": (1,),
}  # fmt: skip

_Pairs: TypeAlias = Mapping[ir.Value, ir.Value]


def differences(graph: ir.Graph, other: ir.Graph, scales: Collection[Fraction]) -> Iterator[str]:
    """Yield what tells a graph from the same graph at another size, each with its node.

    Names of nodes and values do not count, nor the shapes that a file declares for values within the graph.

    Args:
        graph: The nodes of both are in an order in which they can be computed.
        other: The same at the other size.
        scales: How many times as large as an extent there one may be here.
    """
    if [value.name for value in graph.inputs] != [value.name for value in other.inputs]:
        yield "it has other inputs"
        return
    pairs = dict(zip(graph.inputs, other.inputs, strict=True))
    nodes, others = ([node for node in one if not _is_constant(node)] for one in (graph, other))
    for node, twin in zip(nodes, others, strict=False):
        name = f"{node.op_type} {node.name or node.outputs[0].name}"
        if _kind(node) != _kind(twin):
            yield f"{name} stands where the other file has {twin.op_type} {twin.name or twin.outputs[0].name}"
            return  # whatever comes behind is compared with something else
        for index, (value, known) in enumerate(zip(node.inputs, twin.inputs, strict=True)):
            sizes = scales if index in _SIZES.get(node.op_type, ()) and not node.domain else ()
            if not _same(value, known, pairs, sizes):
                yield f"{name} has another input {index}"
        names = (node.attributes.keys(), twin.attributes.keys())
        for attribute in sorted(names[0] | names[1]):
            if not _equal(*(_said(one, attribute) for one in (node, twin))):
                yield f"{name} has another {attribute}"
        pairs.update(zip(node.outputs, twin.outputs, strict=True))
    if len(nodes) != len(others):
        yield f"it has {len(nodes)} nodes, and the other file {len(others)}"
    elif [pairs.get(value) for value in graph.outputs] != list(other.outputs):
        yield "it has other outputs"


def _is_constant(node: ir.Node) -> bool:
    return node.op_type == "Constant" and not node.domain


def _kind(node: ir.Node) -> tuple[Any, ...]:
    return (node.domain, node.op_type, node.overload, len(node.inputs), len(node.outputs))


def _same(value: ir.Value | None, known: ir.Value | None, pairs: _Pairs, scales: Collection[Fraction]) -> bool:
    if value is None or known is None:
        return value is known
    array, twin = _array(value), _array(known)
    if array is None or twin is None:
        return array is twin and pairs.get(value) is known
    if scales and array.dtype == twin.dtype == np.int64 and array.shape == twin.shape and array.size <= _MOST:
        return all(a == b or (b and Fraction(a, b) in scales) for a, b in zip(*_flat(array, twin), strict=True))
    return _equal(array, twin)


def _array(value: ir.Value) -> np.ndarray[Any, Any] | None:
    """Return the numbers of an initializer or a constant; None for what is computed."""
    node = value.producer()
    if node is not None and _is_constant(node):
        said = next(iter(node.attributes.values()))
        return said.as_tensor().numpy() if said.type == ir.AttributeType.TENSOR else np.array(said.value)
    return None if value.const_value is None else value.const_value.numpy()


def _flat(*arrays: np.ndarray[Any, Any]) -> list[list[int]]:
    return [array.reshape(-1).tolist() for array in arrays]


def _said(node: ir.Node, name: str) -> Any:
    if name not in node.attributes:
        return None
    said = node.attributes[name]
    return said.as_tensor().numpy() if said.type == ir.AttributeType.TENSOR else said.value


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return (one.dtype, one.shape) == (other.dtype, other.shape) and one.tobytes() == other.tobytes()
    return bool(one == other)
