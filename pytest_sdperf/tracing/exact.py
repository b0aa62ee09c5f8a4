"""A component in float64: which function a graph or a module is, whatever the precision that it computes in.

Kernels, dtypes and the order of sums do not count here; every epsilon, scale, bias, axis, head and wire does, at any
depth. Angles of the timestep alone are computed in float32 by every side, as torch's modules do it in any precision:
in float64 they would be those of another timestep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import onnx_ir as ir
import torch

from pytest_sdperf.core.errors import is_out_of_memory
from pytest_sdperf.tracing.computer import UNKNOWN_FORM, Computer, Tensors, compute
from pytest_sdperf.tracing.definitions import Tensor

if TYPE_CHECKING:
    Array: TypeAlias = np.ndarray[Any, Any]
    Arrays: TypeAlias = Mapping[str, Array]
    Rounding: TypeAlias = Callable[[Array], Array]
    Widening: TypeAlias = Callable[[Tensor], Tensor]

_HALVES = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
_ANGLES = ("Sin", "Cos")


class NotDefinedError(Exception):
    """A node has no definition, or one that does not know its form."""


class ExactComputer(Computer):
    """Computes a graph in float64.

    Args:
        graph: The graph.
        rounding: Returns a parameter as a file holds it.
        constants: Each constant in half precision -> the number that was rounded to it.
        device: Where torch computes.
    """

    def __init__(
        self, graph: ir.Graph, rounding: Rounding, constants: Mapping[float, float], *, device: str = "cpu"
    ) -> None:
        super().__init__(graph, wide=torch.float64, device=device)
        self._rounding, self._constants = rounding, constants
        self._angles = _before_angles(graph)

    def placed(self, array: Array | Tensor, dtype: ir.DataType | None = None) -> Tensor:
        """Return an array in float64; a constant in half precision is the number that was rounded to it."""
        if isinstance(array, np.ndarray) and array.size == 1 and dtype in _HALVES:
            half = float(array.reshape(()))
            array = np.full(array.shape, self._constants.get(half, half))
        return super().placed(array, dtype)

    def weight(self, value: ir.Value) -> Tensor | None:
        """Return the contents of an initializer, a parameter as the build holds it."""
        if value.const_value is None:
            return None
        return self.placed(self._rounding(value.const_value.numpy()), value.const_value.dtype)

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
            why = str(error.args[0] if error.args else error) or "it has a form that its definition does not know"
            name = node.name or node.outputs[0].name
            raise NotDefinedError(f"{node.op_type} {name}: {why.splitlines()[0]}") from error


def of_graph(
    graph: ir.Graph,
    inputs: Arrays,
    rounding: Rounding,
    constants: Mapping[float, float] | None = None,
    *,
    device: str = "cpu",
) -> dict[str, Array]:
    """Return the outputs of a graph in float64.

    Args:
        graph: Its nodes are in an order in which they can be computed.
        inputs: By name.
        rounding: Returns a parameter as a file holds it.
        constants: Each constant in half precision -> the number that was rounded to it.
        device: Where torch computes.

    Raises:
        NotDefinedError: A node has no definition.
    """
    wanted, found = set(graph.outputs), {}

    def keep(value: ir.Value, tensor: Tensor) -> None:
        if value in wanted:
            found[str(value.name)] = tensor.double().cpu().numpy()

    compute(ExactComputer(graph, rounding, constants or {}, device=device), graph, inputs, keep)
    return found


def of_module(
    module: torch.nn.Module, inputs: Sequence[Array], rounding: Rounding, *, device: str = "cpu"
) -> list[Array]:
    """Return the outputs of a module in float64.

    A parameter takes the memory of a float64 only while the part that it belongs to computes. A module that reads
    parameters of its parts otherwise is widened as a whole.

    Args:
        module: In float32.
        inputs: In call order.
        rounding: Returns a parameter as a file holds it.
        device: Where torch computes.
    """
    given = [torch.from_numpy(np.array(array)).to(device) for array in inputs]
    for name, buffer in list(module.named_buffers()):
        owner, _, own = name.rpartition(".")
        dtype = torch.float64 if buffer.is_floating_point() else buffer.dtype
        setattr(module.get_submodule(owner), own, buffer.to(device, dtype))
    wide = partial(_wide, rounding=rounding, device=device)
    with torch.inference_mode():
        try:
            with _streamed(module, wide):
                made = [one.double().cpu().numpy() for one in module(*given)]
            if not any(np.isnan(one).any() for one in made):
                return made
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise
        for part in module.modules():
            _put(part, {name: wide(one) for name, one in part.named_parameters(recurse=False)})
        return [one.double().cpu().numpy() for one in module(*given)]


@contextmanager
def _streamed(module: torch.nn.Module, wide: Widening) -> Iterator[None]:
    """Let each part of a module have its own parameters in float64 while it computes, and numbers of no use else."""
    hooks, kept = [], []
    for part in module.modules():
        stored = dict(part.named_parameters(recurse=False))
        if stored:
            # What is no number shows in the result if anybody but the part itself reads it.
            none = {name: wide(torch.tensor(torch.nan)).expand(one.shape) for name, one in stored.items()}
            kept.append((part, stored))
            hooks.append(part.register_forward_pre_hook(partial(_widen, stored=stored, wide=wide)))
            hooks.append(part.register_forward_hook(partial(_leave, none=none)))
            _put(part, none)
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
        for part, stored in kept:
            _put(part, stored)


def _widen(part: torch.nn.Module, _: Any, *, stored: Mapping[str, Tensor], wide: Widening) -> None:
    _put(part, {name: wide(one) for name, one in stored.items()})


def _leave(part: torch.nn.Module, *_: Any, none: Mapping[str, Tensor]) -> None:
    _put(part, none)


def _wide(parameter: Tensor, *, rounding: Rounding, device: str) -> Tensor:
    return torch.from_numpy(np.array(rounding(parameter.detach().numpy()))).to(device).double()


def _put(part: torch.nn.Module, parameters: Mapping[str, Tensor]) -> None:
    for name, tensor in parameters.items():
        setattr(part, name, torch.nn.Parameter(tensor, requires_grad=False))


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
