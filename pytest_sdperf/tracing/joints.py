"""The joints of a component: what its blocks read and give (`core.blocks`), of an engine and of plain torch.

A module is walked through once, and at each joint goes on with what the engine has there. So what arrives at a joint is
computed from the engine's own values at those before it, and nothing hides behind what follows.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from pytest_sdperf.core.blocks import blocks_of
from pytest_sdperf.core.files.arrays import at_most_two_values
from pytest_sdperf.core.reference_error import limit, reference_error
from pytest_sdperf.core.values.outcomes import JointAgreement
from pytest_sdperf.tracing.activations import ActivationIndex
from pytest_sdperf.tracing.computer import Computer, compute
from pytest_sdperf.tracing.definitions import Tensor
from pytest_sdperf.tracing.distances import distance
from pytest_sdperf.tracing.insides import CALL, READ

At = Callable[[str, Tensor], Tensor]  # place and what arrives there -> what goes on from there
Obtained = Callable[[str, Tensor], Tensor | None]  # the same, or nothing
Place = tuple[str, tuple[int, ...]]  # a value of a graph, and the order of axes in which it holds a joint

# Of two float32 computations of one value: what a constant in half precision moves is less, another value is further.
_SAME = 2.0**-9
_LOOK = 4.0  # estimates of distances are that exact


@contextlib.contextmanager
def _hooked(module: torch.nn.Module, at: At) -> Iterator[None]:
    """Let what blocks read and give pass through a function; places are named as by `Runner.inside`."""
    calls: Counter[str] = Counter()

    def name(path: str) -> str:
        return path if calls[path] == 1 else f"{path}{CALL}{calls[path]}"

    with contextlib.ExitStack() as stack:
        for path, part in blocks_of(module):

            def reads(_: object, given: Any, named: Any, path: str = path) -> Any:
                calls[path] += 1
                numbers = itertools.count()

                def passed(one: Any) -> Any:
                    takes = isinstance(one, Tensor) and one.is_floating_point()
                    return at(f"{name(path)}{READ}{next(numbers)}", one) if takes else one

                return tuple(map(passed, given)), {key: passed(one) for key, one in named.items()}

            def gives(_: object, __: object, made: Any, path: str = path) -> Any:
                if isinstance(made, Tensor):
                    return at(name(path), made)
                number = next((number for number, one in enumerate(made) if isinstance(one, Tensor)), None)
                if number is None or not isinstance(made, (tuple, list)):
                    return made
                return type(made)([*made[:number], at(name(path), made[number]), *made[number + 1 :]])

            stack.callback(part.register_forward_pre_hook(reads, with_kwargs=True).remove)
            stack.callback(part.register_forward_hook(gives).remove)
        yield


def values_of(
    graph: ir.Graph, shown: Sequence[str], module: torch.nn.Module, inputs: Mapping[str, np.ndarray]
) -> dict[str, Place]:
    """Return joint -> where a graph holds it; without those that it does not, because they were fused away.

    Args:
        graph: A build.
        shown: Names of values that can be seen; inputs and outputs can.
        module: What it was made of, in float32, with parameters as the build holds them.
        inputs: In call order.
    """
    index, same = ActivationIndex("float32"), dict[int, str]()
    joints: dict[str, str] = {}  # every joint -> the first one that is the same tensor
    kept = []

    def keep(name: str, tensor: Tensor) -> Tensor:
        joints[name] = same.setdefault(id(tensor), name)
        if joints[name] == name:
            kept.append(tensor)
            index.add(name, "", tensor, tensor)
        return tensor

    computer = Computer(graph, wide=torch.float32)
    with torch.inference_mode(), _hooked(module, keep):
        module(*(computer.placed(array) for array in inputs.values()))
    best: dict[str, tuple[float, Place]] = {}
    visible = {*shown, *(str(value.name) for value in (*graph.inputs, *graph.outputs))}

    def look(value: ir.Value, tensor: Tensor) -> None:
        if str(value.name) not in visible or not tensor.is_floating_point():
            return
        for match in index.near(tensor):
            if match.error > _LOOK * _SAME:
                break
            far = distance(tensor.reshape(-1), match.place.exact.permute(match.order).reshape(-1))
            if far <= _SAME and far < best.get(match.place.name, (math.inf,))[0]:
                best[match.place.name] = far, (str(value.name), match.order)

    for value in graph.inputs:
        look(value, computer.placed(inputs[str(value.name)]))
    compute(computer, graph, inputs, look)
    return {joint: best[first][1] for joint, first in joints.items() if first in best}


class Walk:
    """One walk through a module that goes on with what an engine has.

    Attributes:
        arrived: Joint -> what arrived there.
        blocks: How many blocks give something of their own.
    """

    def __init__(self, obtained: Obtained, rounded: Callable[[Tensor], Tensor] = lambda tensor: tensor) -> None:
        """Begin.

        Args:
            obtained: Joint and what arrives there -> what the engine has there; None for nothing.
            rounded: Rounds that otherwise.
        """
        self._obtained, self._rounded = obtained, rounded
        self._taken: dict[int, Tensor] = {}
        self._last: Tensor | None = None
        self.arrived: dict[str, Tensor] = {}
        self.blocks = 0

    def through(self, module: torch.nn.Module, inputs: Sequence[Tensor], names: Sequence[str]) -> Walk:
        """Walk through a module, whose outputs have names."""
        with torch.inference_mode():
            with _hooked(module, self._at):
                made = module(*inputs)
            # As what a block without a path reads: what follows the last block.
            self.arrived |= {f"{READ}{name}": tensor for name, tensor in zip(names, made, strict=True)}
        return self

    def _at(self, name: str, tensor: Tensor) -> Tensor:
        known = self._taken.get(id(tensor))  # a block gives what the last one in it gave, or reads what others read
        own = self._obtained(name, tensor) if known is None else known
        if known is None and own is not None:
            self.arrived[name] = tensor  # and so it lives as long as its id is known
            own = self._rounded(own.to(tensor))
            self._taken[id(tensor)] = self._taken[id(own)] = own
        goes_on = tensor if own is None else own
        if READ not in name:
            self.blocks += tensor is not self._last
            self._last = goes_on
        return goes_on


def compared(
    exact: Walk, plain: Sequence[Walk], obtained: Obtained, *, dtype: str, least: float
) -> Iterator[JointAgreement]:
    """Yield the joints in the order of the walk, each with the error of the engine and that of plain torch.

    Args:
        exact: The walk in the reference type.
        plain: Walks in the type that is tested, in one rounding or several.
        obtained: As of `Walk`.
        dtype: The type that is tested.
        least: No error of plain torch counts as less.
    """
    for name, wanted in exact.arrived.items():
        own = obtained(name, wanted)
        if own is None or not bool(wanted.any()) or not all(name in walk.arrived for walk in plain):
            continue
        error = reference_error(least, *(distance(walk.arrived[name], wanted) for walk in plain), dtype=dtype)
        if math.isfinite(error):  # else nothing can be called right there
            path, _, number = name.partition(READ)
            far = distance(own.to(wanted.device), wanted)
            yield JointAgreement(far, error, limit(error), path.partition(CALL)[0], number)


def of_arrays(arrays: Mapping[str, np.ndarray], places: Mapping[str, Place]) -> Obtained:
    """Return what tells what an engine has at a joint.

    Args:
        arrays: What it has, by joint; of a graph by the names of its values.
        places: Joint -> where a graph holds it.
    """

    def obtained(name: str, like: Tensor) -> Tensor | None:
        value, order = places.get(name, (name.removeprefix(READ), None))
        array = arrays.get(value)
        if array is None or array.size != like.numel() or at_most_two_values(array):
            return None  # two values: a mask, and what stands for minus infinity differs with the type
        found = torch.from_numpy(array)
        if order is not None:
            found = found.reshape([like.shape[axis] for axis in order]).permute(sorted(order, key=order.__getitem__))
        return found.reshape(like.shape)

    return obtained
