"""A build beside its reference, value by value, both in float64: where does it begin to be another function?

With nothing rounded, a value of a sound build is a value of the reference, or has no counterpart there: a packed
projection, a sum whose bias moved on. From a wrong node on nothing has one any more. So the first value from which none
that the reference has can be reached is where to look; what it should hold is the value of the reference with which
what follows is right again.
"""

from __future__ import annotations

import dataclasses
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import onnx_ir as ir

from pytest_sdperf.core import progress
from pytest_sdperf.fusing.fusion_graph import path_of
from pytest_sdperf.tracing.activations import WITHOUT_BIAS, ActivationIndex, ActivationMatch
from pytest_sdperf.tracing.computer import Computer, Tensors
from pytest_sdperf.tracing.definitions import Tensor
from pytest_sdperf.tracing.distances import distance
from pytest_sdperf.tracing.exact import ExactComputer
from pytest_sdperf.tracing.held import Held

_MOST_FAULTS = 4
# How many values are tried in place of a wrong one, and how many nodes behind it are computed to see which is right.
_TRIED_PLACES, _TRIED_NODES = 20, 10
# How many of the last names of their module paths a value and its counterpart may differ in.
_PARTS = 3
_LAYOUT = frozenset({"Reshape", "Transpose"})
# Operators that add a bias of the node before them, and what that gives.
_ADDING_BIASES = frozenset({"BiasAdd", "BiasSplitGelu", "SkipGroupNorm", "SkipLayerNormalization"})
_BEFORE_A_BIAS = frozenset({"MatMul", WITHOUT_BIAS})


@dataclasses.dataclass(frozen=True, eq=False)
class GraphFault:
    """A value that a build makes otherwise than its reference.

    Attributes:
        value: The value.
        should: What it should hold; None where nothing that the reference has makes what follows right.
    """

    value: ir.Value
    should: ActivationMatch | None


class GraphComparison:
    """A build, computed from given inputs by the definitions of its nodes.

    Attributes:
        nodes: Of the build, in order.
        exact: Every value in float64; where the reference has it, as the reference has it.
        plain: Every value in the types of the graph, made by plain torch of those that the reference has.
        agreeing: Values that the reference has, too.
        coarse: Those of them that are beyond their limit in the types that the graph says, with their error.
        faults: What the build makes otherwise, in the order in which it was found.
    """

    def __init__(
        self,
        graph: ir.Graph,
        activations: ActivationIndex,
        inputs: Mapping[str, np.ndarray],
        *,
        constants: Mapping[float, float],
        device: str = "cpu",
    ) -> None:
        """Compute every value; where one is wrong, go on with what it should hold.

        Args:
            graph: The build's.
            activations: Values of the reference.
            inputs: By name.
            constants: Each constant in half precision -> the number that was rounded to it.
            device: torch device to compute on.
        """
        self._activations = activations
        self._exact = ExactComputer(graph, Held().parameter, constants, device=device, strict=False)
        self._plain = Computer(graph, wide=None, device=device)
        self.nodes = list(graph)
        self.exact: dict[ir.Value, Tensor | None] = {}
        self.plain: dict[ir.Value, Tensor | None] = {}
        self.agreeing: dict[ir.Value, ActivationMatch] = {}
        self.coarse: dict[ir.Value, float] = {}
        self.faults: list[GraphFault] = []
        for value in graph.inputs:
            if str(value.name) in inputs:
                self.exact[value] = self._exact.placed(inputs[str(value.name)], value.dtype)
                self.plain[value] = self._plain.placed(inputs[str(value.name)], value.dtype)
        for number, node in enumerate(self.nodes):
            progress.at(number, len(self.nodes))
            self._step(node)
        while len(self.faults) < _MOST_FAULTS and (lost := self.differing()):
            fault = next(filter(None, map(self._fault_at, lost)), GraphFault(lost[0], None))
            self.faults.append(fault)
            if fault.should is None:
                break
            self._take(fault.value, fault.should)
            self._again(fault.value)

    def differing(self) -> list[ir.Value]:
        """Return the values from which none that the reference has can be reached any more, in order."""
        bad: set[ir.Value] = set()
        leading: set[ir.Value] = set()  # to an output: of some values only the shape is read
        for node in reversed(self.nodes):
            for value in node.outputs:
                behind = [out for user, _ in value.uses() for out in user.outputs if out in leading]
                if not self._matters(value) or not (value.is_graph_output() or behind):
                    continue
                leading.add(value)
                if value not in self.agreeing and (value.is_graph_output() or all(out in bad for out in behind)):
                    bad.add(value)
        return [value for node in self.nodes for value in node.outputs if value in bad]

    def place_of(self, value: ir.Value) -> int:
        """Return the number of the node that makes a value, in the order of the graph."""
        return self.nodes.index(node) if (node := value.producer()) is not None else -1

    def rounded(self, value: ir.Value) -> Tensor | None:
        """Return what a value holds, rounded to the type that the graph says."""
        tensor = self.exact.get(value)
        return None if tensor is None else self._plain.placed(tensor, value.dtype)

    def _matters(self, value: ir.Value) -> bool:
        tensor = self.exact.get(value)
        used = value.is_graph_output() or bool(value.uses())
        return used and tensor is not None and tensor.is_floating_point() and tensor.numel() > 1

    def _step(self, node: ir.Node) -> None:
        exact, plain = self._made(node, self.exact, self._exact), self._made(node, self.plain, self._plain)
        for value, one, other in zip(node.outputs, exact, plain, strict=True):
            self.agreeing.pop(value, None)
            self.coarse.pop(value, None)
            self.exact[value], self.plain[value] = one, other
            if one is None or not one.is_floating_point():
                continue
            found = self._activations.find(one, name=value.name or "")
            if found is None or (value.is_graph_output() and not found.place.exposed):
                continue
            error = 0.0 if other is None else distance(other, found.exact(other))
            self._take(value, found)
            if error > found.place.limit:
                self.coarse[value] = error

    def _take(self, value: ir.Value, found: ActivationMatch) -> None:
        """Let a value hold what a value of the reference holds."""
        like, plain = self.exact[value], self.plain[value]
        assert like is not None
        self.agreeing[value] = found
        self.exact[value] = found.exact(like)
        self.plain[value] = found.plain(like if plain is None else plain)

    def _again(self, value: ir.Value) -> None:
        changed = {value}
        for node in self.nodes:
            if changed.intersection(one for one in node.inputs if one is not None):
                changed.update(node.outputs)
                self._step(node)

    def _made(self, node: ir.Node, known: Mapping[ir.Value, Tensor | None], computer: Computer) -> Tensors:
        given: Tensors = []
        for value in node.inputs:
            tensor = None if value is None else known.get(value)
            if value is not None and tensor is None and (tensor := computer.weight(value)) is None:
                return [None] * len(node.outputs)
            given.append(tensor)
        return computer.outputs(node, given)

    def _fault_at(self, value: ir.Value) -> GraphFault | None:
        """Return the fault at a value that differs, or at one that its node reads."""
        return self._read_by(value) or self._made_by(value)

    def _read_by(self, value: ir.Value) -> GraphFault | None:
        """Return a value that a node reads and that holds another place, such as a norm without its activation.

        With what it should hold the node is right as it is: so it is not the node that is wrong.
        """
        node = value.producer()
        assert node is not None
        for one in dict.fromkeys(one for one in node.inputs if one is not None and one in self.agreeing):
            place = self.agreeing[one].place
            if place.role in _BEFORE_A_BIAS and node.op_type in _ADDING_BIASES:
                continue  # it lacks what this node is to add
            tensor = self.exact[one]
            assert tensor is not None
            for found in _related(one, self._free(tensor, place.name, str(one.name))):
                if self._is_right(one, found.exact(tensor), [node]):
                    return self._behind_layout(one, found)
        return None

    def _made_by(self, value: ir.Value) -> GraphFault | None:
        """Return a value with what it should hold: a place with which what follows is right again."""
        tensor, after = self.exact[value], list(self._after(value))
        assert tensor is not None
        for found in _related(value, self._free(tensor)):
            if value.is_graph_output():
                whole = found.order == (*range(tensor.ndim),)
                is_right = whole and found.place.exposed and found.place.name == value.name
            else:
                is_right = self._is_right(value, found.exact(tensor), after)
            if is_right:
                return self._behind_layout(value, found)
        return None

    def _free(self, tensor: Tensor, held: str = "", name: str = "") -> Iterator[ActivationMatch]:
        """Yield the places of a size that nothing in the build holds, and that of a name, the nearest first."""
        taken = {found.place for found in self.agreeing.values()}
        for found in self._activations.near(tensor):
            if found.place.name != held and (found.place not in taken or found.place.name == name):
                yield found

    def _behind_layout(self, value: ir.Value, should: ActivationMatch) -> GraphFault:
        """Return the fault at the node that computes a value, where others only changed the order of its axes."""
        tensor, node = self.exact[value], value.producer()
        while node is not None and node.op_type in _LAYOUT and (source := node.inputs[0]) is not None:
            before = self.exact.get(source)
            near = self._activations.near(before) if before is not None and source.producer() is not None else ()
            found = next((one for one in near if one.place is should.place and self._leads(node, one)), None)
            if found is None:
                break
            value, should, tensor, node = source, found, before, source.producer()
        assert tensor is not None
        return GraphFault(value, dataclasses.replace(should, error=distance(tensor, should.exact(tensor))))

    def _leads(self, node: ir.Node, found: ActivationMatch) -> bool:
        """Whether a node of the layout makes of a place in one order what that place is in another."""
        source = node.inputs[0]
        assert source is not None
        before = self.exact[source]
        assert before is not None
        (made,) = self._made(node, ChainMap({source: found.exact(before)}, self.exact), self._exact)
        match = None if made is None else self._activations.find(made, name=found.place.name)
        return match is not None and match.place is found.place

    def _is_right(self, value: ir.Value, instead: Tensor, after: Iterable[ir.Node]) -> bool:
        """Whether what follows is right with another value: something that is made of that and of something else."""
        trial: dict[ir.Value, Tensor | None] = {value: instead}
        for node in after:
            made = self._made(node, ChainMap(trial, self.exact), self._exact)
            others = any(one is not None and one not in trial and self._is_telling(one) for one in node.inputs)
            for out, tensor in zip(node.outputs, made, strict=True):
                trial[out] = tensor
                if tensor is None or not others or not tensor.is_floating_point():
                    continue
                if self._activations.find(tensor, name=out.name or "") is not None:
                    return True
        return False

    def _is_telling(self, value: ir.Value) -> bool:
        """Whether an input says which place a node is at: a weight, or another value."""
        if value.const_value is not None:
            return value.const_value.dtype.is_floating_point() and value.const_value.size > 1
        tensor = self.exact.get(value)
        return tensor is not None and tensor.is_floating_point()

    def _after(self, value: ir.Value) -> Iterator[ir.Node]:
        """Yield the first nodes that depend on a value, in order."""
        reached, left = {value}, _TRIED_NODES
        for node in self.nodes:
            if reached.intersection(one for one in node.inputs if one is not None):
                reached.update(node.outputs)
                yield node
                left -= 1
                if not left:
                    return


def _related(value: ir.Value, near: Iterable[ActivationMatch]) -> list[ActivationMatch]:
    """Return the places that a value may stand for, those of its own part of the module first, then the nearest."""
    node = value.producer()
    path = path_of(node).split(".") if node is not None and path_of(node) else []
    shared = [(_shared(path, one.place.path.split(".") if one.place.path else []), one) for one in near]
    related = [(names, one) for names, one in shared if names is None or names >= len(path) - _PARTS]
    related.sort(key=lambda pair: -(pair[0] or 0))  # a stable sort: the nearest stay first
    return [one for _, one in related[:_TRIED_PLACES]]


def _shared(path: list[str], other: list[str]) -> int | None:
    """Return how many names two module paths begin with alike; None where one of them is not known."""
    if not path or not other:
        return None
    return next((i for i, (a, b) in enumerate(zip(path, other, strict=False)) if a != b), min(len(path), len(other)))
