"""What a build should hold, from what each optimization adds and takes in, and why it does not."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pytest_sdperf.core.values import Build, Case
from pytest_sdperf.fusing import record
from pytest_sdperf.fusing.explain import Explanation, assign, explain
from pytest_sdperf.fusing.places import places_left
from pytest_sdperf.fusing.record import Site

if TYPE_CHECKING:
    from pytest_sdperf.builds.builder import Builder
    from pytest_sdperf.builds.execution.run_context import RunContext

Counts = Mapping[str, int]
Paths = Mapping[str, Sequence[str]]
TakesIn = Mapping[str, str]


@dataclasses.dataclass(frozen=True, kw_only=True)
class CaseBuild(Build):
    """The build of a case that a check looks at, with what built it and knows what it should hold.

    Attributes:
        case: What was built.
        builder: Builds whatever it is compared with.
        gpu: Where that may be computed; None for the CPU.
    """

    case: Case
    builder: Builder
    gpu: RunContext | None = None


def total_counts(optimizations: Iterable[tuple[Counts, TakesIn]]) -> dict[str, int]:
    """Return `domain::op_type` -> nodes of a build; 0 means that none may be left.

    Args:
        optimizations: What each optimization of the build adds and what its operators take in, lowest first.
    """
    total: Counter[str] = Counter()
    for counts, takes_in in optimizations:
        total.update(counts)
        for op, plain in takes_in.items():
            if op != plain and op.partition("[")[0] == plain and total[plain] < 0:
                # A form of an operator cannot come to be where nobody made the plain one.
                missing = min(total[op], -total[plain])
                total[op] -= missing
                total[plain] += missing
    # Of other operators an optimization takes in what a lower one made; without the lower one there is nothing to take
    # in.
    return {op: max(nodes, 0) for op, nodes in sorted(total.items())}


def total_budgets(optimizations: Iterable[tuple[Counts, TakesIn]]) -> dict[str, int]:
    """Return `domain::op_type` -> nodes of a build that may be left at most.

    Args:
        optimizations: What each optimization of the build leaves (`Optimization.leaves`); what it takes in does not
            matter.
    """
    total: Counter[str] = Counter()
    needed: set[str] = set()
    for counts, _ in optimizations:
        total.update(counts)
        needed.update(op for op, nodes in counts.items() if nodes > 0)
    return {op: max(total[op], 0) for op in sorted(needed)}


def total_sites(optimizations: Iterable[tuple[Paths, TakesIn]]) -> dict[str, list[str]]:
    """Return `domain::op_type` -> module paths where a build should hold it; operators without any are left out.

    They stand in the order of the ladder, a form of an operator where the plain one stands.

    Args:
        optimizations: What each optimization of the build adds where, and what its operators take in, lowest first.
    """
    total: dict[str, list[str]] = {}
    for added, takes_in in optimizations:
        for op, paths in sorted(added.items()):
            lower = total.get(takes_in.get(op, ""), [])
            taken = assign(paths, lower, neighbours=False)
            form = op in takes_in and op.partition("[")[0] == takes_in[op]
            total.setdefault(op, []).extend(path for i, path in enumerate(paths) if i in taken or not form)
            gone = set(taken.values())
            lower[:] = [path for j, path in enumerate(lower) if j not in gone]
    order = list(dict.fromkeys(op.partition("[")[0] for op in total))
    return {op: total[op] for op in sorted(total, key=lambda op: order.index(op.partition("[")[0])) if total[op]}


def explain_build(
    build: Build,
    expected: Paths,
    *,
    places: Sequence[Site] | None = None,
    budgets: Counts = MappingProxyType({}),
) -> Explanation:
    """Say what a build lacks and why, and where what is left of it lies.

    Args:
        build: With its counts.
        expected: `domain::op_type` -> module paths, as from `total_sites`.
        places: What there is in a graph that no fuser looked at; None where one has written down what it saw.
        budgets: `domain::op_type` -> how many may be left, as from `total_budgets`.
    """
    seen = record.read(build.path.parent) if places is None else places
    over = [name for name, most in budgets.items() if build.counts.get(name, 0) > most]
    told: dict[str, Any] = {
        "limits": build.limits,
        "notes": build.notes,
        "left": places_left(build.path, over) if over else {},
    }
    if expected and seen is None:
        return Explanation(expected, located=False, **told)
    return dataclasses.replace(explain(expected, seen or [], build.counts), **told)
