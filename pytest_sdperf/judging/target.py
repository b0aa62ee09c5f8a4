"""Are all fused operators there that the torch module allows? Needs no baseline: the target is derived."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_sdperf.values import Case, Outcome, Verdict

METRIC = "fusions"


def judge_against_target(case: Case, counts: Mapping[str, int], target: Mapping[str, int]) -> Verdict:
    """Judge the operators of one graph.

    Args:
        case: What was built.
        counts: `domain::op_type` -> nodes in the graph.
        target: The same, derived from the torch module; operators that it does not name are not judged.

    Returns:
        REGRESSED if an operator is missing, IMPROVED if there are more than derived, else HELD.
    """
    what = f"The {case.component} graph of {case.model} at {case.optimization}, fused by {case.fuser or 'nobody'},"
    got = {name: counts.get(name, 0) for name in sorted(target)}
    lost = [f"{_short(name)} {got[name]} of {target[name]}" for name in got if got[name] < target[name]]
    more = [f"{_short(name)} {got[name]} instead of {target[name]}" for name in got if got[name] > target[name]]
    obtained, expected = float(sum(got.values())), float(sum(target.values()))
    if lost:
        sentence = f"{what} lacks operators: {', '.join(lost)}."
        return Verdict(Outcome.REGRESSED, "fewer-than-derived", sentence, METRIC, obtained, expected)
    if more:
        sentence = f"{what} has more operators than derived: {', '.join(more)}."
        return Verdict(Outcome.IMPROVED, "more-than-derived", sentence, METRIC, obtained, expected)
    sentence = f"{what} has every operator that its torch module allows ({expected:.0f})."
    return Verdict(Outcome.HELD, "as-derived", sentence, METRIC, obtained, expected)


def _short(name: str) -> str:
    return name.rpartition("::")[2]
