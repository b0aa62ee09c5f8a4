"""Which rungs of the ladder does a graph have that somebody else made? Nothing is lost there, but more may be had."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_sdperf.values import Case
from pytest_sdperf.values.outcomes import Outcome, Verdict

METRIC = "fusions"
DONE = ("yes", "has nothing to fuse")

Standing = Mapping[str, str]


def judge_as_is(case: Case, counts: Mapping[str, int], rungs: Standing, *, expected: Mapping[str, int]) -> Verdict:
    """Judge a graph that was taken as it is.

    Its counts are those of its file, whose hash is in the case: they cannot become fewer, so nothing is REGRESSED.

    Args:
        case: What was taken.
        counts: `domain::op_type` -> nodes.
        rungs: Rung -> how it stands.
        expected: `domain::op_type` -> nodes that its own structure allows.

    Returns:
        GAP if something could be fused that is not, else HELD.
    """
    open_rungs = [name for name, text in rungs.items() if text not in DONE]
    obtained, allowed = (float(sum(each.get(name, 0) for name in expected)) for each in (counts, expected))
    what = f"The {case.component} graph of {case.model}, taken as it is,"
    if open_rungs:
        listed = ", ".join(f"{name} {rungs[name]}" for name in open_rungs)
        sentence = f"{what} could be fused further: {listed}."
        return Verdict(Outcome.GAP, "rungs-missing", sentence, METRIC, obtained, allowed)
    sentence = f"{what} has every rung of the ladder that its structure allows."
    return Verdict(Outcome.HELD, "as-given", sentence, METRIC, obtained, allowed)


def standing_lines(found: Mapping[str, Standing]) -> list[str]:
    """Return one line per component: `rungs of unet: fp16 yes, fmha yes, nhwc-conv no (98 Conv left)`."""
    return [
        f"rungs of {component}: {', '.join(f'{name} {text}' for name, text in rungs.items())}"
        for component, rungs in found.items()
    ]
