"""Are all fused operators there that the torch module allows? Needs no baseline: the target is derived."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_sdperf.outcomes import Outcome, Verdict
from pytest_sdperf.values import Case

METRIC = "fusions"

Counts = Mapping[str, int]


def judge_against_target(case: Case, counts: Counts, target: Counts, *, known: Counts | None) -> Verdict:
    """Judge the operators of one graph.

    Args:
        case: What was built.
        counts: `domain::op_type` -> nodes in the graph.
        target: The same, derived from the torch module; operators that it does not name are not judged.
        known: What this version of a foreign optimizer is known to reach; None for an optimizer of this project (it
            has to reach the target), empty where nothing is stored yet.

    Returns:
        REGRESSED below what is known (or below the target, for our own), GAP at what is known but below the target,
        NEW below the target with nothing stored, IMPROVED above, else HELD.
    """
    what = f"The {case.component} graph of {case.model} at {case.optimization}, fused by {case.fuser},"
    if not sum(target.values()):
        return _judge_unfused(what, counts)
    got = {name: counts.get(name, 0) for name in sorted(target)}
    floor = target if known is None else {name: known.get(name, 0) for name in target}
    lost, short, more = _below(got, floor), _below(got, target), _above(got, floor if known else target)
    obtained, expected = float(sum(got.values())), float(sum(target.values()))
    if lost:
        outcome, code, sentence = Outcome.REGRESSED, "operators-lost", f"{what} lost operators: {lost}."
    elif short and known is not None and not known:
        sentence = f"{what} lacks operators that its torch module allows, and nothing is stored to compare it: {short}."
        outcome, code = Outcome.NEW, "below-target-unknown"
    elif short:
        sentence = f"{what} lacks operators that its torch module allows, as it is known to: {short}."
        outcome, code = Outcome.GAP, "below-target"
    elif more:
        outcome, code, sentence = Outcome.IMPROVED, "more-fused", f"{what} has more operators than known: {more}."
    else:
        sentence = f"{what} has every operator that its torch module allows ({expected:.0f})."
        outcome, code = Outcome.HELD, "as-derived"
    return Verdict(outcome, code, sentence, METRIC, obtained, expected)


def _judge_unfused(what: str, counts: Counts) -> Verdict:
    """Judge a graph that has nothing to fuse: it must consist of the exporter's own operators, and of some."""
    fused = {name: nodes for name, nodes in counts.items() if nodes and not name.startswith(("::", "ai.onnx::"))}
    obtained = float(sum(fused.values()))
    if not sum(counts.values()):
        return Verdict(Outcome.INVALID, "graph-empty", f"{what} has no nodes.", METRIC, 0.0, 0.0)
    if fused:
        listed = ", ".join(f"{name} {nodes}" for name, nodes in sorted(fused.items()))
        sentence = f"{what} must hold the exporter's operators alone, but has fused ones: {listed}."
        return Verdict(Outcome.REGRESSED, "unexpected-operators", sentence, METRIC, obtained, 0.0)
    return Verdict(Outcome.HELD, "as-derived", f"{what} holds no fused operators, as it must.", METRIC, 0.0, 0.0)


def _below(got: Counts, floor: Counts) -> str:
    return ", ".join(f"{_short(name)} {got[name]} of {floor[name]}" for name in got if got[name] < floor[name])


def _above(got: Counts, ceiling: Counts) -> str:
    return ", ".join(
        f"{_short(name)} {got[name]} instead of {ceiling[name]}" for name in got if got[name] > ceiling[name]
    )


def _short(name: str) -> str:
    return name.rpartition("::")[2]
