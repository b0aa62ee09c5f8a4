"""Computes the nodes of a graph by their definitions: in one wide type, or in the types that the graph says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx_ir as ir
import torch

from pytest_sdperf.core import progress
from pytest_sdperf.tracing.contrib import CONTRIB, DOMAIN
from pytest_sdperf.tracing.definitions import DEFINITIONS, Definition, Tensor

Tensors = list[Tensor | None]

_TYPES = {
    ir.DataType.FLOAT: torch.float32,
    ir.DataType.FLOAT16: torch.float16,
    ir.DataType.BFLOAT16: torch.bfloat16,
    ir.DataType.DOUBLE: torch.float64,
}
_OF_4_BITS = (ir.DataType.INT4, ir.DataType.UINT4)
# What a definition raises where a node has a form that it does not know.
UNKNOWN_FORM = (AssertionError, AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError)


class Computer:
    """Computes one graph.

    Attributes:
        wide: Every floating-point number has this type; None for the types that the graph says.
    """

    def __init__(self, graph: ir.Graph, *, wide: torch.dtype | None, device: str = "cpu") -> None:
        self.wide = wide
        self._graph, self._device = graph, device

    def placed(self, array: np.ndarray | Tensor, dtype: ir.DataType | None = None) -> Tensor:
        """Return an array on the device; a dtype one in the wide type, or in `dtype` where there is none."""
        tensor = array if isinstance(array, Tensor) else torch.from_numpy(_plain(np.array(array)))
        tensor = tensor.to(self._device)
        if not tensor.is_floating_point():
            return tensor
        return tensor.to(self.wide or _TYPES.get(dtype or ir.DataType.UNDEFINED, tensor.dtype))

    def weight(self, value: ir.Value) -> Tensor | None:
        """Return the contents of an initializer; None for any other value."""
        if value.const_value is None:
            return None
        return self.placed(value.const_value.numpy(), value.const_value.dtype)

    def outputs(self, node: ir.Node, inputs: Sequence[Tensor | None]) -> Tensors:
        """Return the outputs of a node for its inputs; None for those that nobody can tell.

        Args:
            node: A node of the graph.
            inputs: In its order; None for one that is left out.
        """
        try:
            return self.defined(node, inputs)
        except UNKNOWN_FORM:
            return [None] * len(node.outputs)

    def defined(self, node: ir.Node, inputs: Sequence[Tensor | None]) -> Tensors:
        """Return the same; raise one of `UNKNOWN_FORM` where nobody can tell them."""
        if node.op_type == "Constant" and not node.domain:
            return [self._constant(node)]
        definition = definition_of(node)
        if definition is None:
            raise KeyError("it has no definition")
        says = {name: attribute.value for name, attribute in node.attributes.items()}
        with torch.inference_mode():
            found = definition(*inputs, **says)
        results = list(found) if isinstance(found, tuple) else [found]
        results += [None] * (len(node.outputs) - len(results))
        return [self._typed(result, value) for result, value in zip(results, node.outputs, strict=False)]

    def _typed(self, result: Tensor | None, value: ir.Value) -> Tensor | None:
        if result is None or not result.is_floating_point():
            return result
        return result.to(self.wide or _TYPES.get(value.dtype or ir.DataType.UNDEFINED, result.dtype))

    def _constant(self, node: ir.Node) -> Tensor | None:
        attribute = next(iter(node.attributes.values()))
        if attribute.type == ir.AttributeType.TENSOR:
            return self.placed(attribute.as_tensor().numpy(), node.outputs[0].dtype)
        if attribute.type in (ir.AttributeType.INT, ir.AttributeType.INTS):
            return self.placed(np.array(attribute.value, dtype=np.int64))
        if attribute.type in (ir.AttributeType.FLOAT, ir.AttributeType.FLOATS):
            return self.placed(np.array(attribute.value, dtype=np.float32), node.outputs[0].dtype)
        return None


def _plain(array: np.ndarray) -> np.ndarray:
    """Return an array in a type that numpy itself has: one of 4 bits, or bfloat16, in a wider one."""
    if (
        array.dtype.isbuiltin != 2
    ):  # 2: registered by another package; 0: numpy's own with its order of bytes written down
        return array
    return array.astype(np.int8 if "int" in array.dtype.name else np.float32)


def definition_of(node: ir.Node) -> Definition | None:
    """Return what the operator of a node means; None for one that nobody wrote down."""
    known = {"": DEFINITIONS, "ai.onnx": DEFINITIONS, DOMAIN: CONTRIB}.get(node.domain, {})
    if node.op_type == "QuantizeLinear" and any(value and value.dtype in _OF_4_BITS for value in node.inputs):
        return None  # the range of its results cannot be seen: torch has no such type
    return known.get(node.op_type)


def compute(
    computer: Computer,
    graph: ir.Graph,
    inputs: Mapping[str, np.ndarray],
    keep: Callable[[ir.Value, Tensor], None],
) -> None:
    """Compute a whole graph; no value is held longer than the last node that reads it.

    Args:
        computer: Of the graph.
        graph: Its nodes are in an order in which they can be computed.
        inputs: By name.
        keep: Called with every value of a node, in this order.
    """
    known: dict[ir.Value, Tensor | None] = {}
    for value in graph.inputs:
        if str(value.name) in inputs:
            known[value] = computer.placed(inputs[str(value.name)], value.dtype)
    last = {value: node for node in graph for value in node.inputs if value is not None}
    for number, node in enumerate(graph):
        progress.at(number, len(graph))
        given = [None if value is None else _of(value, known, computer) for value in node.inputs]
        missing = any(value is not None and found is None for value, found in zip(node.inputs, given, strict=True))
        results = [None] * len(node.outputs) if missing else computer.outputs(node, given)
        for value, result in zip(node.outputs, results, strict=True):
            if result is not None:
                keep(value, result)
            known[value] = result
        for value in {value for value in node.inputs if value is not None and last[value] is node}:
            known.pop(value, None)


def _of(value: ir.Value, known: Mapping[ir.Value, Tensor | None], computer: Computer) -> Tensor | None:
    return known[value] if value in known else computer.weight(value)
