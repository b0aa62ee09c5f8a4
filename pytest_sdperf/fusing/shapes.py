"""Shapes of every value of a graph, at two choices of the sizes that the graph leaves open.

A rewrite must hold for every batch size and resolution. Instead of reasoning about symbolic sizes, which every
exporter spells differently, the graph is walked twice with concrete sizes: whatever holds at both, although no open
size is equal in the two, does not depend on them. Small tensors (shapes, axes, scales, masks) are computed on the
way, so a shape that the graph computes itself is known like any other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from pytest_sdperf.fusing import evaluation
from pytest_sdperf.fusing.contents import Array, equal
from pytest_sdperf.fusing.evaluation import KnownValue

Shape = tuple[int, ...]

# Height and width: multiples of 64, so that an image can be halved as often as a model does.
_STEP = 64
# Samples and tokens: primes, which no number of heads or channels is made of; a text encoder takes at most 77 tokens.
_PRIMES = ((11, 13, 17, 19, 23, 29, 31, 37), (41, 43, 47, 53, 59, 61, 67, 71))
# What may come out alike at both choices and differently at others: whether a size is 2, for example.
_DECIDING = frozenset(
    {"Ceil", "Div", "Equal", "Floor", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Min", "Mod", "Slice"}
)


class Shapes:
    """What is known about the values of one graph."""

    def __init__(self, graph: ir.Graph) -> None:
        choices = _choices(graph)
        weights: evaluation.Knowledge = {}
        for value in graph.initializers.values():
            evaluation.read_initializer(value, weights)
        self._walks = [_walk(graph, sizes, weights) for sizes in (choices if choices[0] else choices[:1])]
        self._chosen = _chosen(graph, *self._walks) if len(self._walks) > 1 else set()

    def of(self, value: ir.Value) -> tuple[Shape, ...] | None:
        """Return the shape of a value at each choice of open sizes; None where it could not be found."""
        found = [walk.get(value) for walk in self._walks]
        return tuple(known.shape for known in found if known is not None) if all(found) else None

    def fixed(self, value: ir.Value) -> tuple[int | None, ...] | None:
        """Return the shape of a value with None for every size that is open; None if not even the rank is known."""
        shapes = self.of(value)
        if shapes is None or len({len(shape) for shape in shapes}) != 1:
            return None
        return tuple(sizes[0] if len(set(sizes)) == 1 else None for sizes in zip(*shapes, strict=True))

    def same(self, first: ir.Value, second: ir.Value) -> bool:
        """Say whether two values have the same known shape, whatever the open sizes are."""
        shape = self.of(first)
        return shape is not None and shape == self.of(second)

    def constant(self, value: ir.Value) -> Array | None:
        """Return what a value holds if that does not depend on the inputs; None if it does, or it is a weight."""
        arrays = self.values(value)
        if arrays is None or value in self._chosen or any(not equal(arrays[0], other) for other in arrays[1:]):
            return None
        return arrays[0]

    def values(self, value: ir.Value) -> tuple[Array, ...] | None:
        """Return what a value holds at each choice of open sizes; None if that depends on inputs or weights."""
        found = [walk.get(value) for walk in self._walks]
        arrays = [known.array for known in found if known is not None and known.array is not None]
        return tuple(arrays) if len(arrays) == len(self._walks) else None

    def copy(self, source: ir.Value, target: ir.Value, *, contents: bool = False) -> None:
        """Give a new value the shape of another one, and what is known of its contents if these are the same."""
        for walk in self._walks:
            if source in walk:
                walk[target] = walk[source] if contents else KnownValue(walk[source].shape)

    def permute(self, source: ir.Value, target: ir.Value, perm: Sequence[int]) -> None:
        """Give a new value the permuted shape of another one."""
        for walk in self._walks:
            if source in walk and len(walk[source].shape) == len(perm):
                walk[target] = KnownValue(tuple(walk[source].shape[axis] for axis in perm))

    def put(self, value: ir.Value, shape: Shape) -> None:
        """Record the shape of a new weight."""
        for walk in self._walks:
            walk[value] = KnownValue(shape)

    def read(self, value: ir.Value) -> None:
        """Record a new constant."""
        for walk in self._walks:
            evaluation.read_initializer(value, walk)

    def infer(self, node: ir.Node) -> None:
        """Record the shapes of the outputs of a new node from those of its inputs."""
        for walk in self._walks:
            evaluation.evaluate(node, walk)


def _choices(graph: ir.Graph) -> list[dict[str, int]]:
    """Return a size for every open one, twice; no two of all these are equal, but for vectors of their own."""
    images: dict[str, None] = {}
    others: dict[str, None] = {}
    vectors: dict[str, None] = {}
    for value in graph.inputs:
        for axis, name in enumerate(dims := _dims(value)):
            if isinstance(name, str):
                (vectors if len(dims) == 1 else images if axis > 1 and len(dims) == 4 else others)[name] = None
    tokens = [name for name in others if name not in images][: len(_PRIMES[0])]
    large = [*images, *(name for name in others if name not in images and name not in tokens)]
    found: list[dict[str, int]] = []
    for first, primes in zip((2, 7 + len(large)), _PRIMES, strict=True):
        sizes = {
            **dict(zip(tokens, primes, strict=False)),
            **{name: _STEP * (first + i) for i, name in enumerate(large)},
        }
        # Timesteps are one for all samples or one for each.
        length = _batch(graph, sizes) if found else 1
        found.append({**dict.fromkeys(vectors, length), **sizes})
    return found


def _batch(graph: ir.Graph, sizes: Mapping[str, int]) -> int:
    """Return the first size of the first input that is no vector."""
    first = next((dims[0] for value in graph.inputs if len(dims := _dims(value)) > 1), 1)
    return first if isinstance(first, int) else sizes[first]


def _dims(value: ir.Value) -> tuple[int | str, ...]:
    """Return the sizes of a graph input; an open size has a name, if need be one of its own."""
    dims = value.shape or ()
    return tuple(dim if isinstance(dim, int) else dim.value or f"{value.name}.{axis}" for axis, dim in enumerate(dims))


def _walk(graph: ir.Graph, sizes: Mapping[str, int], weights: evaluation.Knowledge) -> evaluation.Knowledge:
    known = dict(weights)
    for value in graph.inputs:
        if value.shape is not None:
            known[value] = KnownValue(tuple(dim if isinstance(dim, int) else sizes[dim] for dim in _dims(value)))
    for node in graph:
        evaluation.evaluate(node, known)
    return known


def _chosen(graph: ir.Graph, first: evaluation.Knowledge, second: evaluation.Knowledge) -> set[ir.Value]:
    """Return the values whose known contents hang on a decision about open sizes: no constants, even if alike twice."""
    found: set[ir.Value] = set()

    def differs(value: ir.Value) -> bool:
        one, other = (walk[value].array if value in walk else None for walk in (first, second))
        return one is not None and other is not None and not equal(one, other)

    for node in graph:
        inputs = [value for value in node.inputs if value is not None]
        decides = node.op_type in _DECIDING and any(map(differs, inputs))
        if decides or any(value in found for value in inputs):
            found.update(value for value in node.outputs if value in first and first[value].array is not None)
    return found
