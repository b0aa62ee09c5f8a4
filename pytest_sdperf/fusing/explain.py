"""Why is an operator not where the torch module allows it? Expected sites and what a fuser did -> one reason each.

Pure: nothing here reads a graph. Counts say how many are missing, and what the fuser saw on its way says where.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pytest_sdperf.fusing.record import Site

Paths = Mapping[str, Sequence[str]]

NO_CANDIDATE = "no candidate node was found there"
PLAIN = "there is one there that has not taken in what follows it"
GONE = "it was fused there, but the graph holds it no more"
# Farther than any two paths of which one lies below the other.
_SIBLINGS = 1000


@dataclass(frozen=True)
class Unfused:
    """An expected operator that is not there.

    Attributes:
        op: `domain::op_type` that was expected.
        path: Path of the torch module where it was.
        reason: Why, in one sentence.
        rule: `domain::op_type` of the fusion that came nearest; empty if none found a node there.
        node: Name of the node where that one stopped.
        op_type: Type of that node.
    """

    op: str
    path: str
    reason: str
    rule: str = ""
    node: str = ""
    op_type: str = ""


@dataclass(frozen=True)
class Explanation:
    """Of one build.

    Attributes:
        expected: `domain::op_type` -> module paths where the torch module allows it.
        unfused: What of that is not there, operator by operator, in the order of the paths.
        limits: Why the kernels of a CUDA GPU would throw on this graph.
        notes: What the builder had to say.
        left: `domain::op_type` of what there is too much of -> where each node is.
        located: Whether the fuser wrote down what it saw; where it did not, `unfused` is empty and says nothing.
    """

    expected: Paths = field(default_factory=dict)
    unfused: tuple[Unfused, ...] = ()
    limits: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    located: bool = True
    left: Paths = field(default_factory=dict)

    @property
    def fused(self) -> dict[str, list[str]]:
        """`domain::op_type` -> module paths where it is; empty where that is not known."""
        if not self.located:
            return {}
        missing = {(one.op, one.path) for one in self.unfused}
        return {op: [path for path in paths if (op, path) not in missing] for op, paths in self.expected.items()}


def explain(expected: Paths, seen: Sequence[Site], counts: Mapping[str, int]) -> Explanation:
    """Find the module paths that were not fused, and for each the rule that came nearest and where it stopped.

    Args:
        expected: `domain::op_type` -> module paths.
        seen: What the fuser looked at, in its order.
        counts: `domain::op_type` -> nodes in the graph. They decide how many are missing of each.
    """
    found: list[Unfused] = []
    for op, paths in expected.items():
        missing = len(paths) - counts.get(op, 0)
        if missing <= 0:
            continue
        own = [one for one in seen if one.op == op]
        nearest = {index: own[position] for index, position in assign(paths, [one.path for one in own]).items()}
        fused = {index for index, one in nearest.items() if not one.reason}
        refusals = _refusals(op, paths, seen, {index: one for index, one in nearest.items() if one.reason})
        plain = {one.path for one in seen if not one.reason and one.op != op and one.op == op.partition("[")[0]}
        ranked = sorted(range(len(paths)), key=lambda index: (index in fused, refusals[index][0]))
        others = {i: GONE if i in fused else PLAIN if paths[i] in plain else NO_CANDIDATE for i in ranked[:missing]}
        found += [_unfused(op, paths[i], refusals[i][1], otherwise=others[i]) for i in sorted(others)]
    return Explanation({op: tuple(paths) for op, paths in expected.items()}, tuple(found))


def _unfused(op: str, path: str, refusal: Site | None, *, otherwise: str) -> Unfused:
    if refusal is None:
        return Unfused(op, path, otherwise)
    return Unfused(op, path, refusal.reason, refusal.op, refusal.node, refusal.op_type)


def _refusals(
    op: str, paths: Sequence[str], seen: Sequence[Site], own: Mapping[int, Site]
) -> list[tuple[int, Site | None]]:
    """Return the refusal nearest to each path, after how far it is from being about the operator itself.

    Args:
        op: `domain::op_type`.
        paths: Where it is expected.
        seen: What the fuser looked at.
        own: Index of a path -> refusal of the operator itself.
    """
    refused = [one for one in seen if one.reason]
    # A form of an operator is made of the plain one: what kept that away kept the form away too.
    plain = [one for one in refused if one.op == op.partition("[")[0]]
    near = assign(paths, [one.path for one in plain], neighbours=False)
    found: list[tuple[int, Site | None]] = []
    for index, path in enumerate(paths):
        if index in own:
            found.append((0, own[index]))
        elif index in near:
            found.append((1, plain[near[index]]))
        else:
            # An operator that takes in another one has no candidate where the other one was refused.
            others = [(below, one) for one in refused if one.path and (below := _below(one.path, path)) is not None]
            found.append((2, min(others, key=lambda pair: pair[0])[1]) if others else (3, None))
    return found


def assign(wanted: Sequence[str], found: Sequence[str], *, neighbours: bool = True) -> dict[int, int]:
    """Assign found paths to wanted ones, nearest first and each once; return index of the one -> index of the other.

    Two paths belong together if they are equal or one lies below the other, because exporters differ in how deep they
    name. What is left over then may belong to a neighbour in the same module (`norm1` and `nonlinearity`), where
    `neighbours` allows it: a node that does what several modules do is named after one of them.
    """
    pairs = sorted(
        (distance, i, j)
        for i, one in enumerate(wanted)
        for j, other in enumerate(found)
        if (distance := _distance(one, other, neighbours=neighbours)) is not None
    )
    assigned: dict[int, int] = {}
    taken: set[int] = set()
    for _, i, j in pairs:
        if i not in assigned and j not in taken:
            assigned[i] = j
            taken.add(j)
    return assigned


def _distance(first: str, second: str, *, neighbours: bool) -> int | None:
    below = _below(first, second)
    if below is not None or not neighbours:
        return below
    return _SIBLINGS if first.rpartition(".")[0] == second.rpartition(".")[0] else None


def _below(first: str, second: str) -> int | None:
    """Return by how many names one path is longer than the other, if it lies below it; else None."""
    short, long = sorted((first, second), key=len)
    if long != short and short and not long.startswith(f"{short}."):
        return None
    return long.count(".") + bool(long) - short.count(".") - bool(short)


def sentences(unfused: Sequence[Unfused], *, component: str, most: int, all_of_them: str) -> list[str]:
    """Return one line for each of the first problems; sites of the same operator and reason share a line.

    Args:
        unfused: What is not there.
        component: Its name opens the paths of a wrapped module, where it says nothing.
        most: How many lines; one more says what they leave out, if anything.
        all_of_them: Where every site is to be found.
    """
    groups: dict[tuple[str, str, str], list[Unfused]] = {}
    for one in unfused:
        groups.setdefault((one.op, one.reason, one.rule), []).append(one)
    shown = list(groups.values())[:most]
    lines = [_sentence(group, component) for group in shown]
    rest = len(unfused) - sum(map(len, shown))
    if len(shown) == len(unfused):
        return lines
    return [*lines, f"and {rest} more: {all_of_them}" if rest else f"each of them: {all_of_them}"]


def _sentence(group: Sequence[Unfused], component: str) -> str:
    first = group[0]
    more = f" and {len(group) - 1} more" if len(group) > 1 else ""
    path = first.path.removeprefix(f"{component}.")
    rule = first.rule.rpartition("::")[2]
    via = f"no {rule}: " if rule and rule.partition("[")[0] != short(first.op).partition("[")[0] else ""
    at = f" ({first.op_type} {first.node})".replace(" )", ")") if first.op_type else ""
    return f"{short(first.op)} at {path}{more}: {via}{first.reason}{at}"


def short(op: str) -> str:
    """Return the name of an operator without its domain."""
    return op.rpartition("::")[2]
