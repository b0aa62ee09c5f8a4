"""A component in float64: which function a graph or a module is, whatever the precision that it computes in.

Kernels, dtypes and the order of sums do not count here; every epsilon, scale, bias, axis, head and wire does, at any
depth. Angles of the timestep alone are computed in float32 by every side, as torch's modules do it in any precision:
in float64 they would be those of another timestep.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import onnx_ir as ir
import torch

from pytest_sdperf.tracing.computer import UNKNOWN_FORM, Computer, Tensors, compute
from pytest_sdperf.tracing.definitions import Tensor

if TYPE_CHECKING:
    Array: TypeAlias = np.ndarray[Any, Any]
    Arrays: TypeAlias = Mapping[str, Array]

_HALVES = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
_ANGLES = ("Sin", "Cos")
_NEAR = 2.0**-10  # of a constant: what rounding to half precision may move it by


class NotDefinedError(Exception):
    """A node has no definition, or one that does not know its form."""


@dataclass(frozen=True)
class Held:
    """How a file holds numbers: which parameters are halves, and which constants were rounded to halves.

    Attributes:
        halves: Dtype of its parameters in half precision; empty where it has none.
        whole: Digests of parameters that are float32 beside these.
        sizes: Their numbers of elements.
        constants: Each constant in half precision -> the same number as the export has it.
    """

    halves: str = ""
    whole: frozenset[str] = frozenset()
    sizes: frozenset[int] = frozenset()
    constants: Mapping[float, float] = field(default_factory=dict)

    def parameter(self, array: Array) -> Array:
        """Return a float32 parameter as the file holds it: rounding is arithmetic, and no part of the function."""
        if not self.halves or array.size == 1 or array.dtype.kind != "f":
            return array
        if array.size in self.sizes and not self.whole.isdisjoint(_digests(array)):
            return array
        return torch.from_numpy(np.array(array)).to(getattr(torch, self.halves)).double().numpy()


def held_by(graph: ir.Graph, export: ir.Graph | None = None) -> Held:
    """Return how a graph holds numbers.

    Args:
        graph: A build.
        export: What it was made of; None where nobody has that.
    """
    found = list(_numbers(graph))
    halves = {dtype for dtype, array in found if array.size > 1 and dtype in _HALVES}
    if len(halves) != 1:
        return Held()
    whole = [array for dtype, array in found if array.size > 1 and dtype == ir.DataType.FLOAT]
    rounded = {float(array.reshape(())) for dtype, array in found if array.size == 1 and dtype in _HALVES}
    exported = {float(array.reshape(())) for _, array in _numbers(export) if array.size == 1} if export else set()
    constants = {half: [one for one in exported if abs(half - one) <= _NEAR * abs(one)] for half in rounded}
    return Held(
        halves.pop().name.lower(),
        frozenset(digest for array in whole for digest in _digests(array)),
        frozenset(array.size for array in whole),
        {half: near[0] for half, near in constants.items() if len(near) == 1 and near[0] != half},
    )


def _numbers(graph: ir.Graph) -> Iterator[tuple[ir.DataType, Array]]:
    """Yield the floating-point tensors that a graph holds, each with its dtype."""
    held = [value.const_value for value in graph.initializers.values()]
    held += [
        node.attributes["value"].as_tensor()
        for node in graph
        if node.op_type == "Constant" and not node.domain and "value" in node.attributes
    ]
    for tensor in held:
        if tensor is not None and tensor.dtype in (ir.DataType.FLOAT, *_HALVES):
            yield tensor.dtype, tensor.numpy()


def _digests(array: Array) -> tuple[str, ...]:
    """Return what tells a parameter: by its numbers, also where a matrix is stored the other way round."""
    sides = (array, array.T) if array.ndim == 2 else (array,)
    return tuple(hashlib.sha256(np.ascontiguousarray(side, np.float32).tobytes()).hexdigest() for side in sides)


class ExactComputer(Computer):
    """Computes a graph in float64.

    Attributes:
        held: Of an export how a build of it holds parameters; of a build how it holds constants.
        strict: Whether a node that nobody can compute is an error.
    """

    def __init__(self, graph: ir.Graph, held: Held, *, device: str = "cpu", strict: bool = True) -> None:
        super().__init__(graph, wide=torch.float64, device=device)
        self.strict = strict
        self.held = held
        self._angles = _before_angles(graph)

    def placed(self, array: Array | Tensor, dtype: ir.DataType | None = None) -> Tensor:
        """Return an array in float64; a constant in half precision is the number that was rounded to it."""
        if isinstance(array, np.ndarray) and array.size == 1 and dtype in _HALVES:
            half = float(array.reshape(()))
            array = np.full(array.shape, self.held.constants.get(half, half))
        return super().placed(array, dtype)

    def weight(self, value: ir.Value) -> Tensor | None:
        """Return the contents of an initializer, a parameter as the build holds it."""
        if value.const_value is None:
            return None
        return self.placed(self.held.parameter(value.const_value.numpy()), value.const_value.dtype)

    def outputs(self, node: ir.Node, inputs: Sequence[Tensor | None]) -> Tensors:
        """Return the outputs of a node.

        Raises:
            NotDefinedError: Nobody wrote down what it means, or memory runs out.
        """
        dtype = torch.float32 if node in self._angles else torch.float64
        given = [one.to(dtype) if one is not None and one.is_floating_point() else one for one in inputs]
        try:
            return self.defined(node, given)
        except UNKNOWN_FORM as error:
            if not self.strict:
                return [None] * len(node.outputs)
            why = str(error.args[0] if error.args else error) or "it has a form that its definition does not know"
            name = node.name or node.outputs[0].name
            raise NotDefinedError(f"{node.op_type} {name}: {why.splitlines()[0]}") from error


def of_graph(graph: ir.Graph, inputs: Arrays, held: Held) -> dict[str, Array]:
    """Return the outputs of a graph in float64.

    Args:
        graph: Its nodes are in an order in which they can be computed.
        inputs: By name.
        held: How parameters and constants are held.

    Raises:
        NotDefinedError: A node has no definition.
    """
    wanted, found = set(graph.outputs), {}

    def keep(value: ir.Value, tensor: Tensor) -> None:
        if value in wanted:
            found[str(value.name)] = tensor.double().numpy()

    compute(ExactComputer(graph, held), graph, inputs, keep)
    return found


def of_module(module: torch.nn.Module, inputs: Sequence[Array], held: Held) -> list[Array]:
    """Return the outputs of a module in float64.

    Args:
        module: In float64; its parameters become those that the file holds.
        inputs: In call order.
        held: How it holds them.
    """
    with torch.inference_mode():
        for parameter in module.parameters():
            parameter.copy_(torch.from_numpy(held.parameter(parameter.float().numpy())))
        made = module(*(torch.from_numpy(np.array(array)) for array in inputs))
    return [one.double().numpy() for one in made]


def _before_angles(graph: ir.Graph) -> frozenset[ir.Node]:
    """Return the nodes that compute the angles of sines and cosines, and these."""
    found: set[ir.Node] = set()
    waiting = [node for node in graph if node.op_type in _ANGLES]
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            made = [value.producer() for value in node.inputs if value is not None]
            waiting.extend(one for one in made if one is not None)
    return frozenset(found)
