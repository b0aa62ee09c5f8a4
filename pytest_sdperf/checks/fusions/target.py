"""Are all fused operators there that the torch module allows? The target is derived; what is stored judges others.

Our own fuser has to reach it on our own export. Of a foreign one, and of a graph that somebody else exported, nobody
can demand that: they are held to what is stored of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from pytest_sdperf.core.values import Case
from pytest_sdperf.core.values.check import Counted
from pytest_sdperf.core.values.outcomes import Outcome, Verdict
from pytest_sdperf.fusing.explain import Explanation, sentences, short

METRIC = "fusions"
SHOWN = 3
EVERY_PLACE = "--sdperf-explain=FILE"

Counts = Mapping[str, int]


@dataclasses.dataclass(frozen=True)
class Operators:
    """What a build holds, of what it can hold. Counts are `domain::op_type` -> nodes.

    Attributes:
        counts: What it holds.
        expected: What its structure allows at its optimization. Operators that it does not name are not judged; of
            those with 0 none may be left.
        budgets: Operators of ONNX itself -> how many may be left at most.
        allowed: As `expected`; of a graph taken as it is what the torch module allows at the last optimization, empty
            where no weights name one. It also tells of what is written in a form in which no fusion finds a place to
            begin.
        most: As `budgets`, likewise.
        float32_products: Products that compute in float32 in a graph of half precision, where none was asked to.
        allowed_by: What `expected` was derived from.
        external: Whether somebody else exported the graph, who may have wanted that.
        standing: Of a graph taken as it is, optimization -> how it stands; None for others.
        explanation: Where the graph falls short, and why: the first problems become details of the verdict.
        every_place: Where all of that is to be found: a file, or what writes one.
    """

    counts: Counts
    expected: Counts
    budgets: Counts
    allowed: Counts
    most: Counts
    float32_products: Counts
    allowed_by: str
    external: bool
    standing: Mapping[str, str] | None
    explanation: Explanation
    every_place: str

    @property
    def wide(self) -> str:
        """What is to be said of products that compute in float32; empty where none does."""
        listed = ", ".join(f"{nodes} {short(name)}" for name, nodes in self.float32_products.items())
        return f"computes {listed} in float32, though its weights are half precision" if listed else ""

    def places(self, case: Case, *, first: Mapping[str, str] = MappingProxyType({})) -> tuple[str, ...]:
        """Return the first problems, those that the sentence names before others, and where what is left lies."""
        told, every_place = self.explanation, self.every_place
        left = [_left(name, places, every_place) for name, places in told.left.items() if name in first]
        if not told.located:
            return (*left, f"where and why is not known: {'; '.join(told.notes) or 'the fuser left no record'}")
        ordered = sorted(told.unfused, key=lambda one: one.op not in first)
        unfused = sentences(ordered, component=case.component, most=SHOWN, all_of_them=every_place)
        return (*unfused, *left)


def judge_against_target(case: Case, found: Operators, *, known: Counted | None) -> Verdict:
    """Judge the operators of one graph.

    Args:
        case: What was built.
        found: Its operators. A foreign optimizer may leave as many of ONNX itself as it is known to: its layout is its
            own.
        known: What this version of a foreign optimizer is known to reach, or where nothing is stored of it the newest
            older one; or what any optimizer is known to make of this graph of somebody else. None for an optimizer of
            this project on its own export (it has to reach the target). Of an operator that it does not name nothing is
            known, so that none of it can be lost; nor of one whose forms it does not tell apart.

    Returns:
        PASSED at the target. Below it REGRESSED if it is below what is known, GAP at what is known, and NEW where
        nothing is known, not even of an older release; of our own FAILED. IMPROVED above what is known. Where products
        left half precision FAILED, and in somebody else's graph GAP if it is known, else NEW.
    """
    counts, target, most, wide, allowed_by = found.counts, found.expected, found.budgets, found.wide, found.allowed_by
    what = f"The {case.component} graph of {case.model} at {case.optimization}, fused by {case.fuser},"
    as_external = half_missing(seen=known is not None and bool(known.counts)) if found.external else None
    if not any(target.values()):
        return _judge_unfused(what, counts, wide, as_external=as_external)
    got = {name: counts.get(name, 0) for name in sorted(target)}
    before, older = (known.counts, known.older) if known else ({}, "")
    floor = target if known is None else _comparable(before, target)
    allowed = most if known is None else _as_known(before, most, gained=_gained(got, floor, target))
    # Transposes stay where an operator is missing: then that one is to be named, and not they.
    lost = {**_short_of(got, floor, target), **_faded(got, floor, target)} or _over(counts, allowed)
    short_of = _short_of(got, target, target) or _over(counts, most)
    unknown = {name: text for name, text in short_of.items() if name not in floor and name not in allowed}
    more = {**_more(got, {**target, **floor}, target), **_fewer(counts, before, most)}
    expected = float(sum(target.values()))
    if lost and known is None:
        also = f", and {wide}" if wide else ""
        sentence = f"{what} lacks operators that its {allowed_by} allows: {_listed(lost)}{also}."
        outcome, code = Outcome.FAILED, "operators-missing"
    elif lost:
        by = f" that onnxruntime {older} made" if older else ""
        also = f", and {wide}" if wide else ""
        sentence = f"{what} lost operators{by}: {_listed(lost)}{also}."
        outcome, code = Outcome.REGRESSED, "operators-lost"
    elif wide and as_external is None:
        outcome, code, sentence = Outcome.FAILED, "half-precision-lost", f"{what} {wide}."
    elif short_of:
        known_so = f"as onnxruntime {older} does" if older else "as it is known to"
        known_so = "and nothing is stored to compare it" if unknown else known_so
        outcome, code = (Outcome.NEW, "below-target-unknown") if unknown else (Outcome.GAP, "below-target")
        sentence = f"{what} lacks operators that its {allowed_by} allows, {known_so}: {_listed(unknown or short_of)}."
    elif wide and as_external is not None:
        outcome, code, sentence = *as_external, f"{what} {wide}."
    elif more and known is not None:
        than = f"onnxruntime {older} makes" if older else "known"
        sentence = f"{what} has more operators than {than}: {_listed(more)}."
        outcome, code = Outcome.IMPROVED, "more-fused"
    else:
        also = f", and more: {_listed(more)}" if more else ""
        sentence = f"{what} has every operator that its {allowed_by} allows ({expected:.0f}){also}."
        outcome, code = Outcome.PASSED, "as-derived"
    details = found.places(case, first=lost or short_of) if lost or short_of else ()
    return Verdict(outcome, code, sentence, METRIC, float(sum(got.values())), expected, details=details)


def lacking(counts: Counts, target: Counts, most: Counts) -> str:
    """Return what a graph lacks of a target, or has left beyond what may be: `NhwcConv 97 of 98`; empty if nothing."""
    got = {name: counts.get(name, 0) for name in target}
    return _listed(_short_of(got, target, target) or _over(counts, most))


def _left(name: str, places: Sequence[str], every_place: str) -> str:
    more = len(places) - SHOWN
    rest = f", and {more} more: {every_place}" if more > 0 else ""
    return f"{short(name)} left at {', '.join(places[:SHOWN])}{rest}"


def half_missing(*, seen: bool) -> tuple[Outcome, str]:
    """Return what it means that somebody else's graph has products that left half precision: they may be wanted."""
    return (Outcome.GAP, "half-precision-missing") if seen else (Outcome.NEW, "half-precision-unknown")


def _judge_unfused(what: str, counts: Counts, wide: str, *, as_external: tuple[Outcome, str] | None) -> Verdict:
    """Judge a graph that has nothing to fuse: it must consist of the exporter's own operators, and of some."""
    fused = {name: nodes for name, nodes in counts.items() if nodes and not name.startswith(("::", "ai.onnx::"))}
    obtained = float(sum(fused.values()))
    if not sum(counts.values()):
        return Verdict(Outcome.INVALID, "graph-empty", f"{what} has no nodes.", METRIC, 0.0, 0.0)
    if fused:
        listed = ", ".join(f"{name} {nodes}" for name, nodes in sorted(fused.items()))
        sentence = f"{what} must hold the exporter's operators alone, but has fused ones: {listed}."
        return Verdict(Outcome.FAILED, "unexpected-operators", sentence, METRIC, obtained, 0.0)
    if wide:
        outcome, code = as_external or (Outcome.FAILED, "half-precision-lost")
        return Verdict(outcome, code, f"{what} {wide}.", METRIC, 0.0, 0.0)
    return Verdict(Outcome.PASSED, "as-derived", f"{what} holds no fused operators, as it must.", METRIC, 0.0, 0.0)


def _comparable(known: Counts, target: Counts) -> dict[str, int]:
    """Return what is known of the operators of a target.

    Where a form of an operator is not named, the plain one was counted with it: it says nothing of either.
    """
    mixed = {name.partition("[")[0] for name in target if "[" in name and name not in known}
    return {name: known[name] for name in target if name in known and name not in mixed}


def _as_known(known: Counts, most: Counts, *, gained: int) -> dict[str, int]:
    """Return how many operators of ONNX a foreign optimizer may leave; of one that is not stored nothing is known.

    An operator that it has learned to make may stand between two transposes, until it also learns to cancel them.
    """
    return {name: max(known[name], limit) + 2 * gained for name, limit in most.items() if name in known}


def _fewer(counts: Counts, known: Counts, most: Counts) -> dict[str, str]:
    """Return what fewer are left of than known, where more were known than may be left."""
    fewer = (name for name in most if name in known and counts.get(name, 0) < known[name] > most[name])
    return {name: f"{short(name)} {counts.get(name, 0)} instead of {known[name]}" for name in fewer}


def _gained(got: Counts, floor: Counts, target: Counts) -> int:
    """Return how many more operators there are than known."""
    return sum(max(got[name] - floor.get(name, 0), 0) for name in got if target[name])


def _over(counts: Counts, most: Counts) -> dict[str, str]:
    """Return what there is more of than may be left."""
    over = {name: counts[name] for name, limit in most.items() if counts.get(name, 0) > limit}
    return {name: f"{nodes} {short(name)} left (at most {most[name]})" for name, nodes in over.items()}


def _short_of(got: Counts, floor: Counts, target: Counts) -> dict[str, str]:
    """Return what there is too little of, or too much where none may be left, and how much."""
    found = {}
    for name in floor:
        if target[name] and got[name] < floor[name]:
            found[name] = f"{short(name)} {got[name]} of {floor[name]}"
        elif not target[name] and got[name] > floor[name]:
            found[name] = f"{got[name]} {short(name)} left"
    return found


def _faded(got: Counts, floor: Counts, target: Counts) -> dict[str, str]:
    """Return what others should have taken in, but did not: it has gone and they have not become more."""
    gone = {
        name: floor[name] - got[name]
        for name in floor
        if not target[name] and got[name] < floor[name] and not name.startswith("::")
    }
    lost = sum(gone.values()) > _gained(got, floor, target)
    return {name: f"{short(name)} {got[name]} of {floor[name]}" for name in gone} if lost else {}


def _more(got: Counts, ceiling: Counts, target: Counts) -> dict[str, str]:
    """Return what there is more of, or less where none may be left."""
    better = (name for name in got if (got[name] > ceiling[name] if target[name] else got[name] < ceiling[name]))
    return {name: f"{short(name)} {got[name]} instead of {ceiling[name]}" for name in better}


def _listed(found: Mapping[str, str]) -> str:
    return ", ".join(text for _, text in sorted(found.items()))
