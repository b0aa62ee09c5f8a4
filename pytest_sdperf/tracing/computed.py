"""Every value of a build by the definitions of its nodes, beside those that the reference has."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import onnx_ir as ir
import torch

from pytest_sdperf.core import progress
from pytest_sdperf.tracing.activations import ActivationIndex, ActivationMatch
from pytest_sdperf.tracing.computer import Computer, Tensors
from pytest_sdperf.tracing.definitions import Tensor
from pytest_sdperf.tracing.distances import distance, limit_of


class Computed:
    """A build, computed from given inputs.

    Attributes:
        nodes: Of the build, in order.
        exact: Every value as it should be: that of the reference, or what the definition of its node makes of these.
        plain: The same in the types of the graph, as plain torch computes it.
        confirmed: Values that the reference has.
        sharp: Whether a value has to be as near to the reference as one node's rounding takes it, not as all of the
            rounding before it does, which can hide a wrong node.
        near: Where it is sharp, every value in the types of the graph, made of those that the reference has.
        limits: Where it is sharp, how far a value may be.
        coarse: Values that are right by their definitions, and beyond their limit in the types that the graph says.
    """

    def __init__(
        self,
        graph: ir.Graph,
        activations: ActivationIndex,
        inputs: Mapping[str, np.ndarray],
        *,
        wide: torch.dtype,
        device: str,
        sharp: bool = False,
    ) -> None:
        """Compute every value; go on with what the reference has, where it has it.

        Args:
            graph: The build's.
            activations: Values of the reference.
            inputs: By name.
            wide: Type of the reference.
            device: torch device to compute on.
            sharp: As of the attribute.
        """
        self._activations = activations
        self.sharp = sharp
        self._wide = Computer(graph, wide=wide, device=device)
        self._own = Computer(graph, wide=None, device=device)
        self.exact: dict[ir.Value, Tensor | None] = {}
        self.plain: dict[ir.Value, Tensor | None] = {}
        self.near: dict[ir.Value, Tensor | None] = {}
        self.limits: dict[ir.Value, float] = {}
        self.coarse: dict[ir.Value, float] = {}
        self.confirmed: dict[ir.Value, ActivationMatch] = {}
        self.nodes = list(graph)
        for value in graph.inputs:
            if str(value.name) in inputs:
                self.exact[value] = self._wide.placed(inputs[str(value.name)], value.dtype)
                self.plain[value] = self._own.placed(inputs[str(value.name)], value.dtype)
                self.near[value] = self.plain[value]
        for number, node in enumerate(self.nodes):
            progress.at(number, len(self.nodes))
            self._step(node)

    def _given(self, node: ir.Node, known: Mapping[ir.Value, Tensor | None], computer: Computer) -> Tensors | None:
        found = []
        for value in node.inputs:
            tensor = None if value is None else known.get(value)
            if value is not None and tensor is None and (tensor := computer.weight(value)) is None:
                return None
            found.append(tensor)
        return found

    def _step(self, node: ir.Node) -> None:
        exact, plain = (self._made(node, which) for which in (self.exact, self.plain))
        near = self._made(node, self.near) if self.sharp else [None] * len(node.outputs)
        for value, one, other, rounded in zip(node.outputs, exact, plain, near, strict=True):
            self.near[value] = rounded
            self._take(value, one, other)

    def _made(self, node: ir.Node, known: Mapping[ir.Value, Tensor | None]) -> Tensors:
        computer = self._wide if known is self.exact else self._own
        given = self._given(node, known, computer)
        return [None] * len(node.outputs) if given is None else computer.outputs(node, given)

    def _take(self, value: ir.Value, exact: Tensor | None, plain: Tensor | None) -> None:
        self.confirmed.pop(value, None)
        self.coarse.pop(value, None)
        self.exact[value], self.plain[value] = exact, plain
        if exact is None or not exact.is_floating_point():
            return
        found = self._activations.find(exact, name=value.name or "", within=self._within(value, exact))
        if found is not None:
            error = 0.0 if plain is None else distance(plain, found.exact(plain))
            self._set(value, found, like=exact, plain=plain)
            if error > found.place.limit:
                self.coarse[value] = error

    def _within(self, value: ir.Value, exact: Tensor) -> float:
        """Return how far a value may be from the reference, beside the limit of its place."""
        near = self.near[value]
        if near is None:
            return math.inf
        self.limits[value] = limit_of(near, exact, dtype=self._activations.dtype)
        return self.limits[value]

    def _set(self, value: ir.Value, found: ActivationMatch, *, like: Tensor, plain: Tensor | None) -> None:
        self.confirmed[value] = found
        self.exact[value] = found.exact(like)
        self.plain[value] = found.plain(like if plain is None else plain)
        if self.sharp:
            self.near[value] = self._own.placed(found.exact(like), value.dtype)

    def place_of(self, value: ir.Value) -> int:
        """Return the number of the node that makes a value, in the order of the graph."""
        return self.nodes.index(node) if (node := value.producer()) is not None else -1

    def lost(self) -> list[ir.Value]:
        """Return the values from which none that the reference has can be reached any more, in order."""
        bad: set[ir.Value] = set()
        for node in reversed(self.nodes):
            for value in node.outputs:
                if value in self.confirmed or not self._matters(value):
                    continue
                outputs = [out for user, _ in value.uses() for out in user.outputs if self._matters(out)]
                if value.is_graph_output() or (outputs and all(out in bad for out in outputs)):
                    bad.add(value)
        return [value for node in self.nodes for value in node.outputs if value in bad]

    def _matters(self, value: ir.Value) -> bool:
        tensor = self.exact.get(value)
        used = value.is_graph_output() or bool(value.uses())
        return used and tensor is not None and tensor.is_floating_point() and tensor.numel() > 1

    def _after(self, value: ir.Value, *, limit: int) -> Iterator[ir.Node]:
        """Yield the nodes that depend on a value, in order."""
        reached = {value}
        for node in self.nodes:
            if reached.intersection(v for v in node.inputs if v is not None):
                reached.update(node.outputs)
                yield node
                limit -= 1
                if not limit:
                    return

    def _again(self, values: Iterable[ir.Value]) -> None:
        changed = set(values)
        for node in self.nodes:
            if changed.intersection(value for value in node.inputs if value is not None):
                changed.update(node.outputs)
                self._step(node)
