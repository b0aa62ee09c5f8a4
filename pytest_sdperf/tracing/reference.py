"""What a build is compared with: the values of a graph to which nothing was done, or of torch's modules."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir
import torch

from pytest_sdperf.core.values.located import Location
from pytest_sdperf.fusing import node_types, tidy
from pytest_sdperf.fusing.fusion_graph import path_of
from pytest_sdperf.tracing.activations import LARGEST, WITHOUT_BIAS, ActivationIndex
from pytest_sdperf.tracing.computer import Computer, compute
from pytest_sdperf.tracing.definitions import Tensor
from pytest_sdperf.tracing.distances import distance, limit_of
from pytest_sdperf.tracing.exact import ExactComputer, of_module

if TYPE_CHECKING:
    from pytest_sdperf.tracing.exact import Rounding

Arrays = Mapping[str, np.ndarray]
# Relative L2 distance in float64 of two values that are the same: factors that a fusion folded are rounded to float32.
SAME = 1e-7
# They hold what their input holds, and a pool finds a value in whatever shape and order.
_SAME_CONTENT = frozenset({"Cast", "Dropout", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})


def pool_of_graphs(
    raw: ir.Graph, plain: ir.Graph | None, inputs: Arrays, *, rounding: Rounding, dtype: str, device: str
) -> ActivationIndex:
    """Compute a graph in float64 and in the type that is tested, and return all of its values.

    Args:
        raw: A float32 graph in which nothing is fused.
        plain: The same in the type that is tested; None where no type is.
        inputs: By name.
        rounding: Returns a parameter as a build of the graph holds it.
        dtype: That type.
        device: torch device to compute on.
    """
    exact: dict[str, tuple[ir.Value, Tensor]] = {}
    rough: dict[str, Tensor] = {}

    def keep(value: ir.Value, tensor: Tensor) -> None:
        node = value.producer()
        telling = value.is_graph_output() or (node is not None and node.op_type not in _SAME_CONTENT)
        if telling and tensor.numel() <= LARGEST and tensor.is_floating_point():
            exact[str(value.name)] = value, tensor

    def keep_plain(value: ir.Value, tensor: Tensor) -> None:
        if value.name in exact:
            rough[value.name] = tensor

    compute(ExactComputer(raw, rounding, {}, device=device, strict=False), raw, inputs, keep)
    if plain is not None:
        compute(Computer(plain, wide=None, device=device), plain, inputs, keep_plain)
    else:
        rough = {name: tensor for name, (_, tensor) in exact.items()}
    activations = ActivationIndex(dtype)
    for name, (value, tensor) in exact.items():
        if name not in rough:
            continue
        node, exposed = value.producer(), value.is_graph_output()
        path, role = (path_of(node), node.op_type) if node is not None else ("", "")
        activations.add(name, path, tensor, rough[name], same=SAME, role=role, exposed=exposed)
        if (bias := _bias(node, rounding)) is not None and not exposed:  # a fuser may let another node add it
            without = (one - bias.to(one.device, one.dtype) for one in (tensor, rough[name]))
            activations.add(f"{name} without its bias", path, *without, same=SAME, role=WITHOUT_BIAS)
    return activations


def _bias(node: ir.Node | None, rounding: Rounding) -> Tensor | None:
    """Return the bias of a convolution, to be added to what it gives; None where it has none."""
    if node is None or node.op_type != "Conv" or len(node.inputs) < 3 or node.inputs[2] is None:
        return None
    bias = node.inputs[2].const_value
    sizes = node.inputs[1].shape if node.inputs[1] is not None else None
    if bias is None or sizes is None:
        return None
    return torch.from_numpy(np.array(rounding(bias.numpy()))).reshape(-1, *[1] * (len(sizes) - 2))


def pool_of_module(
    module: torch.nn.Module, inputs: Sequence[np.ndarray], names: Sequence[str], *, rounding: Rounding
) -> ActivationIndex:
    """Compute a module in float64, and return what its parts give.

    Args:
        module: In float32.
        inputs: In call order.
        names: Of its outputs.
        rounding: Returns a parameter as a graph of the module holds it.
    """
    activations = ActivationIndex("float32")

    def keep(_: object, __: object, made: object, *, path: str) -> None:
        made = made[0] if isinstance(made, tuple) and made else made
        if isinstance(made, torch.Tensor) and made.is_floating_point() and made.numel() <= LARGEST:
            activations.add(path, path, made, made, same=SAME)

    for path, part in module.named_modules():
        part.register_forward_hook(partial(keep, path=path))
    for name, output in zip(names, of_module(module, inputs, rounding), strict=True):
        tensor = torch.from_numpy(output)
        activations.add(name, "", tensor, tensor, same=SAME, exposed=True)
    return activations


def pool_of_modules(
    exact: Arrays, plain: Arrays, outputs: Arrays, rough: Arrays, *, dtype: str, device: str
) -> ActivationIndex:
    """Return what torch's modules gave inside, and their outputs, as the values of a reference.

    Args:
        exact: Path of a module -> what it gave in the reference type.
        plain: The same in the type that is tested.
        outputs: Outputs of the whole component in the reference type, by name.
        rough: The same in the type that is tested.
        dtype: That type.
        device: torch device to compute on.
    """
    activations = ActivationIndex(dtype)
    for one, other, exposed in ((exact, plain, False), (outputs, rough, True)):
        for name, array in one.items():
            if "<" in name or name not in other or array.dtype.kind != "f":
                continue
            tensors = (torch.from_numpy(each).to(device) for each in (array, other[name]))
            wanted, own = tensors
            activations.add(name, "" if exposed else name.partition("#")[0], wanted.double(), own, exposed=exposed)
    return activations


def wrong_reference(activations: ActivationIndex, expected: Arrays, rough: Arrays, *, dtype: str) -> Location | None:
    """Return the output with which an unfused graph is itself farther from torch than may be; None if it is not.

    Args:
        activations: Values of that graph.
        expected: Outputs of torch in the reference type.
        rough: Those in the type that is tested.
        dtype: That type.
    """
    for place in activations.places:
        if not place.exposed or place.name not in expected:
            continue
        wanted = torch.from_numpy(expected[place.name])
        largest = limit_of(torch.from_numpy(rough[place.name]), wanted, dtype=dtype)
        error = distance(place.exact.cpu(), wanted)
        if error > largest:
            return Location(place.name, "", "", place.path, error, largest)
    return None


def spot_of(value: ir.Value, error: float, limit: float) -> Location:
    """Return a value of a graph as it is reported."""
    node = value.producer()
    if node is None:
        return Location(str(value.name), "", "", "", error, limit)
    return Location(str(value.name), node.name or "", f"{node.domain}::{node.op_type}", path_of(node), error, limit)


def plain_not_finite(activations: ActivationIndex) -> Location | None:
    """Return where plain torch is first not finite, if that leaves an output without a reference error; else None."""
    if not any(gap.exposed for gap in activations.gaps):
        return None
    first = activations.gaps[0]
    return Location(first.name, "", first.role, first.path, math.inf, math.inf)


def load(path: Path) -> ir.Model:
    """Read a graph, its functions put in and the types of its values known."""
    model = ir.load(path)
    tidy.unify(model)
    node_types.record(model.graph)
    return model
