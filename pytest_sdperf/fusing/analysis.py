"""What a graph holds and what could be fused in it, from its own structure: for graphs that no torch module stands for.

Every candidate of every fusion counts, also where the fusion is refused; what is refused because the operator does not
apply there (an attention whose projections have biases cannot be packed) does not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from pytest_sdperf.core.optimization import Optimization
from pytest_sdperf.fusing import layout, tidy
from pytest_sdperf.fusing.counted import counted
from pytest_sdperf.fusing.fusion import Fusion, RefusalError
from pytest_sdperf.fusing.fusion_graph import MICROSOFT, FusionGraph, path_of
from pytest_sdperf.fusing.native import ready
from pytest_sdperf.fusing.node_names import SILU
from pytest_sdperf.fusing.record import Site, Standing

ATTENTION = f"{MICROSOFT}::MultiHeadAttention"
LAYER_NORM = "::LayerNormalization"
TRANSPOSE = "::Transpose"
LEFT = "the graph is taken as it is; the fuser native"
_NHWC_CONV = f"{MICROSOFT}::NhwcConv"
_SKIP_LAYER_NORM = f"{MICROSOFT}::SkipLayerNormalization"
_BIAS_GELU = f"{MICROSOFT}::BiasGelu"
_VIEWS = ("Reshape", "Transpose", "Cast", "Identity", "Squeeze", "Unsqueeze")


@dataclass(frozen=True)
class Candidate:
    """A node where a fusion may begin.

    Attributes:
        op: `domain::op_type[form]` that the fusion makes there.
        path: Path of the torch module, as far as the exporter said it.
        origin: The node of the external graph that it began with, at the first fusion that touched it.
        node: Name under which it is counted.
        fused: Whether it was applied.
        reason: Why it was not; empty where it was.
    """

    op: str
    path: str
    origin: ir.Node
    node: str
    fused: bool
    reason: str = ""


@dataclass
class GraphAnalysis:
    """What was found in a graph.

    Attributes:
        present: `domain::op_type` -> nodes before anything was fused.
        places: Optimization -> places that its fusions looked at, lowest optimization first.
        final: `domain::op_type` -> module paths of the nodes after every fusion was applied, and transposes cancelled.
        cancel: How many transposes of the graph cancel as it is, before anything is fused.
    """

    present: Mapping[str, int]
    cancel: int = 0
    places: dict[str, list[Candidate]] = field(default_factory=dict)
    final: dict[str, list[str]] = field(default_factory=dict)


def analyze(model: ir.Model, optimizations: Mapping[str, Optimization]) -> GraphAnalysis:
    """Apply the fusions of some optimizations to a model, in place, and return every place that they looked at.

    Args:
        model: Its weights are not read.
        optimizations: By name, lowest first.

    Raises:
        BuildError: The model holds an operator in a form that no exporter emits.
    """
    tidy.unify(model)
    found = GraphAnalysis(Counter(map(counted, model.graph.all_nodes())), cancel=_cancelling(model.clone()))
    graph = ready(model)
    origins: dict[ir.Node, ir.Node] = {}
    for name, optimization in optimizations.items():
        found.places[name] = [place for fusion in optimization.fusions() for place in _look(fusion, graph, origins)]
    layout.settle(graph)
    for node in model.graph.all_nodes():
        found.final.setdefault(counted(node), []).append(path_of(node))
    return found


def expected_sites(found: GraphAnalysis, optimizations: Mapping[str, Optimization]) -> dict[str, list[str]]:
    """Return `domain::op_type` -> module paths where a graph should hold it after these; empty means nowhere.

    Args:
        found: From `analyze`, with the same optimizations.
        optimizations: By name, lowest first.
    """
    wanted: dict[str, list[str]] = {}
    for optimization in optimizations.values():
        made = [op for fusion in optimization.fusions() for op in (fusion.op, *optimization.forms.get(fusion.op, ()))]
        ops = [*made, *optimization.takes_in, *optimization.takes_in.values()]
        wanted.update({op: list(found.final.get(op, ())) for op in ops})
    for op in found.present:
        if not op.startswith("::"):
            # What was fused before stays, whatever is asked.
            wanted.setdefault(op, list(found.final.get(op, ())))
    if _SKIP_LAYER_NORM in wanted:
        wanted[LAYER_NORM] = list(found.final.get(LAYER_NORM, ()))
    _add_missing(wanted, found)
    for optimization in optimizations.values():
        if any(wanted.get(fusion.op) for fusion in optimization.fusions()):
            wanted.update({op: [] for op in optimization.replaces})
    # What was never there and cannot be is not worth a line, unless another one has to take it in.
    taken = {
        op
        for optimization in optimizations.values()
        for op in (*optimization.takes_in.values(), *optimization.replaces)
    }
    return {op: paths for op, paths in wanted.items() if paths or (op in taken and _made(op, wanted, optimizations))}


def budgets(found: GraphAnalysis) -> dict[str, int]:
    """Return `domain::op_type` of ONNX -> how many a graph may hold at most after the optimizations of an analysis.

    Only where convolutions are in channels-last layout: without them a transpose is what an exporter made of a module.
    """
    return {TRANSPOSE: len(found.final.get(TRANSPOSE, ()))} if found.final.get(_NHWC_CONV) else {}


def standing(found: GraphAnalysis, optimizations: Mapping[str, Optimization]) -> dict[str, Standing]:
    """Return how each optimization stands, by its name.

    An optimization that fuses nothing by itself is left out.

    Args:
        found: From `analyze` of every optimization.
        optimizations: Every optimization by name, lowest first.
    """
    takers: dict[str, list[str]] = {}
    for optimization in optimizations.values():
        for op, taken in optimization.takes_in.items():
            takers.setdefault(taken, []).append(op)
    result = {}
    for name, optimization in optimizations.items():
        made = set(optimization.operators)
        taking = [taker for op in made for taker in takers.get(op, ()) if taker not in made]
        left = Counter({place.origin: place.origin.op_type for place in found.places[name]}.values())
        if found.cancel and found.present.get(_NHWC_CONV) and _NHWC_CONV in made:
            # They would cancel: as long as they are there, the layout costs more than it saves.
            left["Transpose"] = found.cancel
        # An operator of ONNX itself comes from the exporter, and says nothing about what was fused.
        present = sum(found.present.get(op, 0) for op in (*made, *taking) if not op.startswith("::"))
        if optimization.operators:
            result[name] = Standing(present, dict(sorted(left.items())))
    return result


def begun(found: GraphAnalysis) -> list[Site]:
    """Return every place of a graph at which something could be fused, as what a fuser left there."""
    return [
        Site(
            place.op,
            place.path,
            place.origin.name or "",
            place.origin.op_type,
            f"{LEFT} would refuse it: {place.reason}" if place.reason else f"{LEFT} fuses it",
        )
        for places in found.places.values()
        for place in places
    ]


def _add_missing(wanted: dict[str, list[str]], found: GraphAnalysis) -> None:
    """Expect at every place that could not be fused what should be there, in the stead of what is."""
    for place in (place for places in found.places.values() for place in places if not place.fused):
        wanted.setdefault(place.op, []).append(place.path)
        if place.path in wanted.get(place.node, ()):
            wanted[place.node].remove(place.path)


def _made(op: str, wanted: Mapping[str, Sequence[str]], optimizations: Mapping[str, Optimization]) -> bool:
    """Say whether something is expected that takes in an operator, or that replaces it."""
    takers = [
        one for optimization in optimizations.values() for one, taken in optimization.takes_in.items() if taken == op
    ]
    replacers = [
        fusion.op
        for optimization in optimizations.values()
        if op in optimization.replaces
        for fusion in optimization.fusions()
    ]
    return any(wanted.get(one) for one in (*takers, *replacers))


def _cancelling(model: ir.Model) -> int:
    """Return how many transposes of a model cancel if they are moved; the model is changed."""
    graph = ready(model)
    before = len(graph.nodes("Transpose"))
    layout.settle(graph)
    return before - len(graph.nodes("Transpose"))


def _look(fusion: Fusion, graph: FusionGraph, origins: dict[ir.Node, ir.Node]) -> list[Candidate]:
    places = []
    for node in list(fusion.candidates(graph)):
        if node.graph is None:
            continue  # the fusion of an earlier candidate took it in
        path, name, origin = path_of(node), counted(node), origins.get(node, node)
        applies = _applies(fusion, node, graph)
        op = _form(node, graph) if name == fusion.op else fusion.op
        try:
            match = fusion.requires(node, graph)
        except RefusalError as refusal:
            if applies:
                places.append(Candidate(op, path, origin, name, fused=False, reason=refusal.reason))
            continue
        fused = fusion.apply(match, graph)
        origins[fused] = origin
        places.append(Candidate(counted(fused), path, origin, name, fused=True))
    return places


def _applies(fusion: Fusion, node: ir.Node, graph: FusionGraph) -> bool:
    """Say whether a candidate is one of which the operator can be made at all, however it is written."""
    if fusion.op == ATTENTION and counted(node) == ATTENTION:
        causal = node.attributes.get("unidirectional")
        key, value = (_projection(operand, graph) for operand in node.inputs[1:3])
        same = key is not None and value is not None and key.inputs[0] is value.inputs[0]
        return same and not (causal is not None and causal.as_int())
    if fusion.op == _BIAS_GELU:
        add = graph.producer(node.inputs[0], "Add")
        return add is not None and any(graph.is_weight(value, 1) for value in add.inputs)
    return True


def _form(node: ir.Node, graph: FusionGraph) -> str:
    """Return the form that an operator takes which is fused already: an attention is packed, a norm takes in a SiLU."""
    op = counted(node)
    return _packed(node, graph) if op == ATTENTION else f"{op}{SILU}"


def _packed(attention: ir.Node, graph: FusionGraph) -> str:
    query, key = (_projection(operand, graph) for operand in attention.inputs[:2])
    itself = query is not None and key is not None and query.inputs[0] is key.inputs[0]
    return f"{ATTENTION}[{'packed-qkv' if itself else 'packed-kv'}]"


def _projection(value: ir.Value | None, graph: FusionGraph) -> ir.Node | None:
    """Return the product with a weight that a value is, seen through what only moves it."""
    node = graph.producer(value)
    while node is not None and not node.domain and node.op_type in _VIEWS:
        node = graph.producer(node.inputs[0])
    if node is None or node.domain or node.op_type not in ("MatMul", "Gemm"):
        return None
    return node if graph.is_weight(node.inputs[1], 2) and (len(node.inputs) < 3 or node.inputs[2] is None) else None
