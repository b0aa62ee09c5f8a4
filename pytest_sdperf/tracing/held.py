"""How the file of a build holds the numbers of its module: rounding them is arithmetic, and no part of the function.

Standard library only at import time: the process of pytest hands on what one task found to another.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import TypeAlias

    import numpy as np
    import onnx_ir as ir

    Array: TypeAlias = np.ndarray[Any, Any]

_HALVES = ("FLOAT16", "BFLOAT16")
_DEQUANTIZE = "DequantizeLinear"
_NEAR = 2.0**-10  # of a constant: what rounding to half precision may move it by
_LIKE = 0.25  # of a parameter: 4 bits move it by 0.15 at most, and another parameter is 1.4 away


@dataclass(frozen=True)
class Held:
    """How a file holds parameters.

    Attributes:
        halves: Dtype of those in half precision; empty where it has none.
        whole: Digests of those that are float32 beside these -> their numbers of elements.
        quantized: Whether some are quantized: then `quantized_of` its graph is needed beside this.
    """

    halves: str = ""
    whole: Mapping[str, int] = field(default_factory=dict)
    quantized: bool = False

    def parameter(self, array: Array, quantized: Sequence[Array] = ()) -> Array:
        """Return a float32 parameter as the file holds it.

        Args:
            array: The parameter of a module or an export.
            quantized: What the quantized ones of the file stand for.
        """
        if array.size == 1 or array.dtype.kind != "f":
            return array
        near = _nearest(array, quantized)
        if near is not None:
            return near
        if not self.halves or (array.size in self.whole.values() and not self.whole.keys().isdisjoint(_digests(array))):
            return array
        import numpy as np
        import torch

        return torch.from_numpy(np.array(array)).to(getattr(torch, self.halves)).double().numpy()


def held_by(graph: ir.Graph) -> Held:
    """Return how a graph holds parameters."""
    found = [(dtype, array) for dtype, array in _numbers(graph) if array.size > 1]
    halves = {dtype for dtype, _ in found if dtype in _HALVES}
    quantized = any(True for _ in _dequantized(graph))
    if len(halves) != 1:
        return Held(quantized=quantized)
    whole = {digest: array.size for dtype, array in found if dtype == "FLOAT" for digest in _digests(array)}
    return Held(halves.pop().lower(), dict(sorted(whole.items())), quantized)


def rounding_of(graph: ir.Graph) -> Callable[[Array], Array]:
    """Return what returns a float32 parameter as a graph holds it."""
    return partial(held_by(graph).parameter, quantized=quantized_of(graph))


def quantized_of(graph: ir.Graph) -> list[Array]:
    """Return what the quantized weights of a graph stand for, in float64."""
    import torch

    from pytest_sdperf.tracing.computer import Computer

    computer, found = Computer(graph, wide=torch.float64), []
    for node in _dequantized(graph):
        given = [None if value is None else computer.weight(value) for value in node.inputs]
        found += [one.numpy() for one in computer.outputs(node, given) if one is not None and one.numel() > 1]
    return found


def rounded_constants(graph: ir.Graph, export: ir.Graph | None) -> dict[float, float]:
    """Return each constant in half precision of a build -> the same number as its export has it."""
    numbers = _numbers(export) if export is not None else ()
    exported = {float(array.reshape(())) for _, array in numbers if array.size == 1}
    rounded = {float(array.reshape(())) for dtype, array in _numbers(graph) if array.size == 1 and dtype in _HALVES}
    constants = {half: [one for one in exported if abs(half - one) <= _NEAR * abs(one)] for half in rounded}
    return {half: near[0] for half, near in constants.items() if len(near) == 1 and near[0] != half}


def _numbers(graph: ir.Graph) -> Iterator[tuple[str, Array]]:
    """Yield the floating-point tensors that a graph holds, each with the name of its dtype."""
    scales = {value for node in _dequantized(graph) for value in node.inputs if value is not None}
    held = [value.const_value for value in graph.initializers.values() if value not in scales]
    held += [
        node.attributes["value"].as_tensor()
        for node in graph
        if node.op_type == "Constant" and not node.domain and "value" in node.attributes
    ]
    for tensor in held:
        if tensor is not None and tensor.dtype.name in ("FLOAT", *_HALVES):
            yield tensor.dtype.name, tensor.numpy()


def _dequantized(graph: ir.Graph) -> Iterator[ir.Node]:
    """Yield the nodes that give what a stored weight stands for."""
    for node in graph:
        if node.op_type == _DEQUANTIZE and all(value is None or value.const_value is not None for value in node.inputs):
            yield node


def _digests(array: Array) -> tuple[str, ...]:
    """Return what tells a parameter: by its numbers, also where a matrix is stored the other way round."""
    import numpy as np

    sides = (array, array.T) if array.ndim == 2 else (array,)
    return tuple(hashlib.sha256(np.ascontiguousarray(side, np.float32).tobytes()).hexdigest() for side in sides)


def _nearest(array: Array, quantized: Sequence[Array]) -> Array | None:
    """Return the quantized weight that stands for a parameter, in its shape; None where there is none."""
    import numpy as np

    sides = [one for found in quantized for one in (found, found.T) if one.shape == array.shape]
    if not sides:
        return None
    wide = array.astype(np.float64)  # a mask holds the largest numbers of float32, whose squares are none
    near = min(sides, key=lambda side: float(np.linalg.norm(side - wide)))
    return near if float(np.linalg.norm(near - wide)) <= _LIKE * float(np.linalg.norm(wide)) else None
