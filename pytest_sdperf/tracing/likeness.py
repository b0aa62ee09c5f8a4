"""Which places of a reference a value of a build may stand for, and which values of a build are alike."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import onnx_ir as ir

from pytest_sdperf.fusing.fusion_graph import path_of
from pytest_sdperf.tracing.activations import Activation, ActivationMatch
from pytest_sdperf.tracing.definitions import Tensor

# How many places may be tried for a value, and how many of the last parts of their module paths may differ.
_TRIED_PLACES = 60
_PARTS = 3


def kind(value: ir.Value) -> tuple[object, ...]:
    """Return what makes values of different places alike: the operators that they come from and go to, and a name."""
    node = value.producer()
    name = path_of(node).rpartition(".")[2] if node is not None else ""
    made_by = (node.domain, node.op_type, name, value.index()) if node is not None else ()
    return (*made_by, *sorted((user.op_type, index) for user, index in value.uses()))


def is_telling(tensor: Tensor | None, value: ir.Value) -> bool:
    """Whether an input says which place a node is at: a weight, or another value."""
    if value.const_value is not None:
        sizes = value.const_value.shape.numpy()
        return value.const_value.dtype.is_floating_point() and int(np.prod(sizes)) > 1
    return tensor is not None and tensor.is_floating_point()


def plausible(value: ir.Value, near: Iterable[ActivationMatch]) -> list[ActivationMatch]:
    """Return the places that a value may stand for, those of its own part of the module first, then the nearest."""
    node = value.producer()
    path = path_of(node).split(".") if node is not None and path_of(node) else []
    found = [(_shared(path, one.place), one) for one in near]
    related = [(shared, one) for shared, one in found if shared is None or shared >= len(path) - _PARTS]
    related.sort(key=lambda pair: -(pair[0] or 0))  # a stable sort: the nearest stay first
    return [one for _, one in related[:_TRIED_PLACES]]


def _shared(path: list[str], place: Activation) -> int | None:
    """Return how many names two module paths have in common; None where one of them is not known."""
    other = place.path.split(".") if place.path else []
    if not path or not other:
        return None
    return next((i for i, (a, b) in enumerate(zip(path, other, strict=False)) if a != b), min(len(path), len(other)))
