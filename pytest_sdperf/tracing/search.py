"""Find the first node of a build that is wrong: by its graph's own definition, or in what an engine computed."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir
import torch

from pytest_sdperf.core.values.located import Located, Location
from pytest_sdperf.tracing.comparison import GraphComparison
from pytest_sdperf.tracing.computer import Computer
from pytest_sdperf.tracing.definitions import Tensor
from pytest_sdperf.tracing.distances import distance, limit_of
from pytest_sdperf.tracing.engine_activations import EngineActivations
from pytest_sdperf.tracing.reference import spot_of
from pytest_sdperf.tracing.section import boundary, last_before, nodes_between

Arrays = Mapping[str, np.ndarray]
_NO_LIMIT = (
    "The first value beyond its limit is {value}. Computed from what its node really read, plain torch is not finite "
    "there: nobody can tell whether the node is wrong or what it reads."
)


@dataclasses.dataclass(frozen=True, eq=False)
class SuspectNode:
    """What was found.

    Attributes:
        kind: As of `located.Located`; empty where the graph and what an engine computed are right.
        value: The first value that is wrong; None where none is.
        nodes: What makes it of values that agree.
        location: The value as it is reported.
        inputs: What the nodes read.
        last: The last value before it that agrees.
        more: Other nodes that are wrong by themselves.
        places: How many values were compared.
        told: Why nothing can be said, as a sentence; empty where something is.
    """

    kind: str
    value: ir.Value | None = None
    nodes: Sequence[ir.Node] = ()
    location: Location | None = None
    inputs: tuple[Location, ...] = ()
    last: Location | None = None
    more: int = 0
    places: int = 0
    told: str = ""


def located(suspect: SuspectNode, component: str) -> Located:
    """Return what was found as it is reported."""
    return Located(
        component=component,
        kind=suspect.kind,
        location=suspect.location,
        inputs=suspect.inputs,
        last=suspect.last,
        section=tuple(node.name or str(node.outputs[0].name) for node in suspect.nodes),
        more=suspect.more,
        places=suspect.places,
        told=suspect.told,
    )


def wrong_in_graph(comparison: GraphComparison) -> SuspectNode | None:
    """Return the first value that the graph makes otherwise than its reference; None where it makes all of them right.

    Args:
        comparison: Of the graph.
    """
    if not comparison.faults:
        return None
    fault = min(comparison.faults, key=lambda one: comparison.place_of(one.value))
    nodes = nodes_between(
        fault.value, _known(comparison, [value for value in comparison.agreeing if value is not fault.value])
    )
    if fault.should is None:
        return SuspectNode("graph", fault.value, nodes, spot_of(fault.value, math.inf, 0.0))
    inputs = tuple(_agreeing(comparison, value) for value in boundary(nodes) if value in comparison.agreeing)
    others = {one.value.producer() for one in comparison.faults} - {fault.value.producer()}
    location = spot_of(fault.value, fault.should.error, fault.should.place.same)
    before = last_before(nodes[0], comparison.agreeing)
    last = None if before is None else _agreeing(comparison, before)
    return SuspectNode("graph", fault.value, nodes, location, inputs, last, len(others), len(comparison.agreeing))


def _agreeing(comparison: GraphComparison, value: ir.Value) -> Location:
    found = comparison.agreeing[value]
    return spot_of(value, found.error, found.place.same)


def wrong_in_types(comparison: GraphComparison, obtained: Arrays, *, dtype: str) -> SuspectNode | None:
    """Return the first value that is right by its definition, and wrong in the types that the graph says.

    What an engine gave there has to be wrong too: an engine may compute in wider types than these.

    Args:
        comparison: Of the graph, which has no other fault.
        obtained: What an engine computed, as far as it was seen.
        dtype: The type that is tested.
    """
    seen = EngineActivations(comparison, obtained, dtype=dtype)
    for value, error in comparison.coarse.items():
        location = seen.location(value)
        if location is not None and location.error <= location.limit:
            continue
        nodes = nodes_between(value, _known(comparison, [one for one in comparison.agreeing if one is not value]))
        inputs = tuple(filter(None, (seen.location(one) for one in boundary(nodes))))
        location = location or spot_of(value, error, comparison.agreeing[value].place.limit)
        return SuspectNode(
            "types", value, nodes, location, inputs, seen.last_before(nodes[0]), 0, len(comparison.agreeing)
        )
    return None


def _known(comparison: GraphComparison, agreeing: Sequence[ir.Value]) -> set[ir.Value]:
    """Return values that a section may begin at: those that agree, and those that hold no floating-point numbers."""
    integers = {
        value for value, tensor in comparison.exact.items() if tensor is not None and not tensor.is_floating_point()
    }
    return {*agreeing, *integers}


def wrong_in_engine(comparison: GraphComparison, obtained: Arrays, *, dtype: str, device: str) -> SuspectNode:
    """Return the first value that an engine computed beyond its limit, from which what is wrong reaches an output.

    Args:
        comparison: Of the graph, which is right.
        obtained: What the engine computed, by name.
        dtype: The type that is tested.
        device: torch device to compute on.
    """
    seen = EngineActivations(comparison, obtained, dtype=dtype)
    value = seen.first_beyond()
    if value is None:
        untold = _untold(comparison, seen.found, obtained)
        return SuspectNode("hidden" if untold else "vanished", places=seen.places, told=untold)
    agreeing = {one for one, (error, limit) in seen.found.items() if error <= limit}
    nodes = nodes_between(value, {*_known(comparison, []), *agreeing})
    inputs = tuple(filter(None, (seen.location(one) for one in boundary(nodes))))
    itself = _local(comparison, nodes, value, obtained, dtype=dtype, device=device)
    if itself is not None and not math.isfinite(itself[1]):
        return SuspectNode("hidden", places=seen.places, told=_NO_LIMIT.format(value=value.name))
    kind = "spread" if itself is not None and itself[0] <= itself[1] else "engine"
    return SuspectNode(kind, value, nodes, seen.location(value), inputs, seen.last_before(nodes[0]), 0, seen.places)


def _untold(comparison: GraphComparison, found: Mapping[ir.Value, tuple[float, float]], obtained: Arrays) -> str:
    """Say which output was compared with nothing, and why; empty where each was compared."""
    for node in comparison.nodes:
        for value in node.outputs:
            array = obtained.get(str(value.name))
            whole = array is not None and array.dtype.kind in "iub"
            if value.is_graph_output() and value not in found and not whole:
                why = _why_not_compared(comparison, value, array)
                return f"Where it goes wrong cannot be told: its output {value.name} was compared with nothing. {why}"
    return ""


def _why_not_compared(comparison: GraphComparison, value: ir.Value, array: np.ndarray | None) -> str:
    exact, plain = comparison.exact.get(value), comparison.plain.get(value)
    if exact is None or plain is None:
        node = _first_unknown(comparison, value)
        op = f"{node.domain}::{node.op_type}".removeprefix("::")
        return f"It comes from {op} {node.name}, of which no definition was written down."
    if array is None:
        return "The engine gave nothing of that name."
    if array.shape != tuple(exact.shape):
        return f"It has shape {array.shape}, and by its definition {tuple(exact.shape)}."
    if not bool(plain.isfinite().all()):
        return "Plain torch is not finite there."
    return "By its definition it is one number, zeros or a mask, which tell nothing."


def _first_unknown(comparison: GraphComparison, value: ir.Value) -> ir.Node:
    """Return the first node before a value, or its own, whose results nobody knows."""
    before, unknown = {value}, value.producer()
    for node in reversed(comparison.nodes):
        if before.intersection(node.outputs):
            before.update(one for one in node.inputs if one is not None)
            known = (
                comparison.exact.get(one) is not None and comparison.plain.get(one) is not None for one in node.outputs
            )
            unknown = unknown if any(known) else node
    assert unknown is not None
    return unknown


def _local(
    comparison: GraphComparison, nodes: Sequence[ir.Node], value: ir.Value, obtained: Arrays, *, dtype: str, device: str
) -> tuple[float, float] | None:
    """Return error and limit of a value against what its nodes make of what they were really given."""
    made = by_definition(comparison, nodes, value, obtained, dtype=dtype, device=device)
    return None if made is None else (distance(torch.from_numpy(obtained[str(value.name)]), made[0]), made[1])


def by_definition(
    comparison: GraphComparison, nodes: Sequence[ir.Node], value: ir.Value, given: Arrays, *, dtype: str, device: str
) -> tuple[Tensor, float] | None:
    """Return what nodes make of given inputs by their definitions, and the limit that plain torch sets there.

    Args:
        comparison: Knows what is not given.
        nodes: In order.
        value: What they make.
        given: By name; weights too, which then take the place of the graph's.
        dtype: The type that is tested.
        device: torch device to compute on.
    """
    graph = nodes[0].graph
    assert graph is not None
    results = []
    for wide, fallback in ((torch.float64, comparison.exact), (None, comparison.plain)):
        computer = Computer(graph, wide=wide, device=device)
        known: dict[ir.Value, Tensor | None] = {}
        for node in nodes:
            tensors = []
            for one in node.inputs:
                tensor = None
                if one is not None and one in known:
                    tensor = known[one]
                elif one is not None and str(one.name) in given:
                    tensor = computer.placed(given[str(one.name)], one.dtype)
                elif one is not None:
                    tensor = computer.weight(one) if one.const_value is not None else fallback.get(one)
                if one is not None and tensor is None:
                    return None
                tensors.append(tensor)
            known.update(zip(node.outputs, computer.outputs(node, tensors), strict=True))
        made = known[value]
        if made is None:
            return None
        results.append(made)
    exact, plain = results
    return exact.cpu(), limit_of(plain, exact, dtype=dtype)
