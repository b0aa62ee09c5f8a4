"""Along a build, node by node: does each value hold what a value of the reference holds?

Every node is computed by its definition. A value that the reference has, within the limit of that place, goes on as
the reference has it, so that nothing adds up and a fault is seen where it is made. Not every value of a right build
has a counterpart (packed projections, a bias that was moved); after a wrong one there is none any more.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import onnx_ir as ir
import torch

from pytest_sdperf.fusing.fusion_graph import path_of
from pytest_sdperf.tracing.activations import ActivationIndex, ActivationMatch
from pytest_sdperf.tracing.computed import Computed
from pytest_sdperf.tracing.definitions import Tensor
from pytest_sdperf.tracing.distances import distance
from pytest_sdperf.tracing.likeness import is_telling, kind, plausible

# How many nodes after a corrected value are computed to see whether it was the right correction.
_TRIED_NODES = 10
_LAYOUT = frozenset({"Reshape", "Transpose"})
_MOST_FAULTS = 4
# How many nodes before a lost value the wrong one may be, where it holds by chance what another place has.
_LOOKED_BACK = 4
# How far a value may be from what it should hold, to be near to it, and how many places are looked at.
_SMALL, _NEAREST = 0.5, 4


@dataclasses.dataclass(frozen=True, eq=False)
class GraphFault:
    """A value that the graph of a build makes otherwise than the reference.

    Attributes:
        value: The value.
        should: What it should hold; None where nothing that the reference has makes what follows right.
    """

    value: ir.Value
    should: ActivationMatch | None


class DataflowSearch(Computed):
    """A build along which wrong values are found.

    Attributes:
        faults: What the graph makes otherwise, in order.
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
        """Compute every value, find the wrong ones, and go on with what these should hold; as `Computed`."""
        super().__init__(graph, activations, inputs, wide=wide, device=device, sharp=sharp)
        self.faults: list[GraphFault] = []
        self._cleared: set[ir.Value] = set()  # values of which it is known that no other place does better
        self._correct()

    def _correct(self) -> None:
        """Find every value that the graph makes wrong, and go on with the right ones."""
        if self.sharp:
            self._correct_in_order()
        tried: set[ir.Value] = set()
        while (lost := [value for value in self.lost() if value not in tried]) and len(self.faults) < _MOST_FAULTS:
            fault = next(filter(None, (self._fault_before(value) or self._fault_at(value) for value in lost)), None)
            tried.update(lost if fault is None else lost[: lost.index(fault.value) + 1] if fault.value in lost else ())
            if fault is not None:
                self._go_on(fault)
        if not self.faults and (lost := self.lost()):
            self.faults.append(GraphFault(lost[0], None))

    def _correct_in_order(self) -> None:
        """Find the values that have a counterpart, by what they nearly hold or by their module, and differ from it.

        What is added to much larger numbers behind a wrong node may hide it again, so that nothing is lost.
        """
        for value in [one for node in self.nodes for one in node.outputs if not one.is_graph_output()]:
            if len(self.faults) < _MOST_FAULTS and value not in self.confirmed and self._matters(value):
                fault = self._fault_at(value, own=True)
                if fault is not None:
                    self._go_on(fault)

    def _alike(self, value: ir.Value) -> list[ir.Value]:
        """Return the values of other places that come from such a node and go to such ones."""
        return [one for node in self.nodes for one in node.outputs if one is not value and kind(one) == kind(value)]

    def _usual_role(self, value: ir.Value) -> str | None:
        """Return what most values of this kind stand for; None where most have no counterpart."""
        alike = [self.confirmed[one].place.role if one in self.confirmed else None for one in self._alike(value)]
        return Counter(alike).most_common(1)[0][0] if alike else None

    def _is_as_usual(self, value: ir.Value) -> bool:
        """Whether a value holds what such a value holds elsewhere, as far as the operators of the reference tell."""
        roles = Counter(self.confirmed[one].place.role for one in self._alike(value) if one in self.confirmed)
        return bool(roles) and roles.most_common(1)[0][0] == self.confirmed[value].place.role

    def _fault_before(self, value: ir.Value) -> GraphFault | None:
        """Find a value before a lost one that holds what another place has, such as a norm without its activation."""
        found, reached = [], [value]
        for _ in range(_LOOKED_BACK):
            nodes = [node for one in reached if (node := one.producer()) is not None]
            reached = [one for node in nodes for one in node.inputs if one is not None and one.producer() is not None]
            found += [one for one in reached if one in self.confirmed]
            reached = [one for one in reached if one not in self.confirmed]
        order = {one: number for number, node in enumerate(self.nodes) for one in node.outputs}
        fresh = {one for one in found if not self._is_as_usual(one)} - self._cleared
        self._cleared |= fresh
        faults = (self._fault_at(one) for one in sorted(fresh, key=order.__getitem__))
        return next(filter(None, faults), None)

    def _fault_at(self, value: ir.Value, *, own: bool = False) -> GraphFault | None:
        right, tensor = self._right_one(value, own=own), self.exact[value]
        if right is None or tensor is None:
            return None
        right = dataclasses.replace(right, error=distance(tensor, right.exact(tensor)))
        return self._behind_layout(GraphFault(value, right))

    def _behind_layout(self, fault: GraphFault) -> GraphFault:
        """Return a fault at the node that computes something, where only the order of a value's axes was changed."""
        node, right = fault.value.producer(), fault.should
        source = node.inputs[0] if node is not None and node.op_type in _LAYOUT else None
        if node is None or right is None or source is None or source in self.confirmed or not self._matters(source):
            return fault
        tensor = self.exact[source]
        assert tensor is not None
        result, given = self.exact[fault.value], self._given(node, self.exact, self._wide)
        assert result is not None
        wanted = right.exact(result)
        for found in self._activations.near(tensor):
            if found.place is right.place and given is not None:
                made = self._wide.outputs(node, [found.exact(tensor), *given[1:]])[0]
                if made is not None and distance(made, wanted) <= right.place.limit:
                    return GraphFault(source, found)
        return fault

    def _right_one(self, value: ir.Value, *, own: bool) -> ActivationMatch | None:
        """Return what a value should hold: a place of the reference with which what follows is right again."""
        tensor, held = self.exact[value], self.confirmed.get(value)
        assert tensor is not None
        after = list(self._after(value, limit=_TRIED_NODES))
        near = self._activations.near(tensor)
        for found in plausible(value, self._counterparts(value, near) if own else near):
            if held is not None and distance(found.exact(tensor), tensor) <= held.place.limit:
                continue  # what it holds already
            if value.is_graph_output():
                if found.place.exposed and found.place.name == value.name and found.order == (*range(tensor.ndim),):
                    return found
            elif self._is_right(value, found.exact(tensor), after):
                return found
        return None

    def _counterparts(self, value: ir.Value, near: Iterable[ActivationMatch]) -> Iterator[ActivationMatch]:
        """Yield the places that a value nearly holds, and those of its own module."""
        node = value.producer()
        path, left = path_of(node) if node is not None else "", _NEAREST
        for number, found in enumerate(near):
            of_module = bool(path) and found.place.path == path and left > 0
            if of_module or (number < _NEAREST and found.error < _SMALL):
                left -= of_module
                yield found

    def _is_right(self, value: ir.Value, instead: Tensor, after: Iterable[ir.Node]) -> bool:
        trial: dict[ir.Value, Tensor | None] = {value: instead}
        for node in after:
            known = {**{v: self.exact.get(v) for v in node.inputs if v is not None}, **trial}
            given = self._given(node, known, self._wide)
            made = [None] * len(node.outputs) if given is None else self._wide.outputs(node, given)
            others = any(v is not None and v not in trial and is_telling(self.exact.get(v), v) for v in node.inputs)
            for out, tensor in zip(node.outputs, made, strict=True):
                trial[out] = tensor
                if tensor is None or not others or not tensor.is_floating_point():
                    continue
                within = self.limits.get(out, math.inf)
                if self._activations.find(tensor, name=out.name or "", within=within) is not None:
                    return True
        return False

    def _go_on(self, fault: GraphFault) -> None:
        """Note a fault, and compute what follows from what its node should give."""
        node = fault.value.producer()
        assert node is not None
        before = self.exact[fault.value], self.plain[fault.value], self.confirmed.get(fault.value)
        self._put_right(fault)
        self._again([fault.value])
        named = self._named(fault, before[2])
        if named is not fault:
            self.exact[fault.value], self.plain[fault.value] = before[:2]
            self.confirmed.pop(fault.value)
            if before[2] is not None:
                self.confirmed[fault.value] = before[2]
        self.faults.append(named)
        for value in node.outputs:
            # A norm with the sum before it has two outputs, and what is wrong with one mostly is with the other.
            if value is not fault.value and self._matters(value) and value not in self.confirmed:
                other = self._fault_at(value)
                if other is not None:
                    self._put_right(other)
                    self._again([value])

    def _named(self, fault: GraphFault, held: ActivationMatch | None) -> GraphFault:
        """Return a fault at the node that is to be named for it.

        A bias that is missing may have been left out by the node that a fuser took it from, or by the one that it was
        moved to. Where the one is as elsewhere in the graph, the other is named.

        Args:
            fault: It was corrected, and what follows is right.
            held: What its value stood for before.
        """
        # Where the same is wrong with all that are alike, none of them says what is usual.
        if fault.should is None or set(self._alike(fault.value)) <= set(self.lost()):
            return fault
        node = fault.value.producer()
        if self.sharp and node is not None and fault.should.place.path == path_of(node):
            return fault  # nothing was moved: it is what its own module gives
        usual = self._usual_role(fault.value)
        as_usual = held is not None and held.place.role == usual != fault.should.place.role
        for node in self._after(fault.value, limit=_TRIED_NODES) if as_usual or usual is None else ():
            for out in node.outputs:
                if out in self.confirmed and self._matters(out) and self._usual_role(out) is not None:
                    return GraphFault(out, self.confirmed[out])
        return fault

    def _put_right(self, fault: GraphFault) -> None:
        tensor = self.exact[fault.value]
        assert tensor is not None
        assert fault.should is not None
        self._set(fault.value, fault.should, like=tensor, plain=self.plain[fault.value])
