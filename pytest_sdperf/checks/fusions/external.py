"""Which optimizations does a graph have that somebody else made? Nothing is lost there, but more may be had."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pytest_sdperf.checks.fusions.target import EVERY_PLACE, half_missing, in_float32, lacking, places_of
from pytest_sdperf.core.values import Case
from pytest_sdperf.core.values.outcomes import Outcome, Verdict
from pytest_sdperf.fusing.explain import Explanation

METRIC = "fusions"
DONE = ("yes", "has nothing to fuse")

Standing = Mapping[str, str]
Counts = Mapping[str, int]


def judge_as_is(
    case: Case,
    counts: Counts,
    optimizations: Standing,
    *,
    expected: Counts,
    target: Counts = MappingProxyType({}),
    most: Counts = MappingProxyType({}),
    float32_products: Counts = MappingProxyType({}),
    seen: bool = False,
    explanation: Explanation | None = None,
    every_place: str = EVERY_PLACE,
) -> Verdict:
    """Judge a graph that was taken as it is.

    Its counts are those of its file, whose hash is in the case: they cannot become fewer, so nothing is REGRESSED.

    Args:
        case: What was taken.
        counts: `domain::op_type` -> nodes.
        optimizations: Optimization -> how it stands.
        expected: `domain::op_type` -> nodes that its own structure allows.
        target: The same, that the torch module allows at the last optimization; empty where no weights name one. It
            also tells of what is written in a form in which no fusion finds a place to begin.
        most: Operators of ONNX itself -> how many the module needs at most.
        float32_products: Products that compute in float32, though the weights are half precision.
        seen: Whether its counts are stored.
        explanation: Where something could be fused: the first places become details of the verdict.
        every_place: Where all of them are to be found: a file, or what writes one.

    Returns:
        If something could be fused that is not, or computed in half precision, GAP where that was seen before, else
        NEW; PASSED if nothing could.
    """
    open_optimizations = [name for name, text in optimizations.items() if text not in DONE]
    obtained, allowed = (float(sum(each.get(name, 0) for name in expected)) for each in (counts, expected))
    what = f"The {case.component} graph of {case.model}, taken as it is,"
    wide = in_float32(float32_products)
    also = f"; it {wide}" if wide else ""
    outcome, code = (Outcome.GAP, "optimizations-missing") if seen else (Outcome.NEW, "optimizations-missing-unknown")
    if open_optimizations:
        listed = ", ".join(f"{name} {optimizations[name]}" for name in open_optimizations)
        sentence = f"{what} could be fused further: {listed}{also}."
        details = places_of(explanation, case, every_place=every_place) if explanation is not None else ()
        return Verdict(outcome, code, sentence, METRIC, obtained, allowed, details=details)
    if missing := lacking(counts, target, most):
        lacks = f"lacks operators that its torch module allows, in a form in which no fusion begins: {missing}"
        sentence = f"{what} {lacks}{also}."
        return Verdict(outcome, code, sentence, METRIC, obtained, float(sum(target.values())))
    if wide:
        outcome, code = half_missing(seen=seen)
        return Verdict(outcome, code, f"{what} {wide}.", METRIC, obtained, allowed)
    sentence = f"{what} has every optimization of the ladder that its structure allows."
    return Verdict(Outcome.PASSED, "as-is-complete", sentence, METRIC, obtained, allowed)


def standing_lines(found: Mapping[str, Standing]) -> list[str]:
    """Return one line per component: `optimizations of unet: fp16 yes, fmha yes, nhwc-conv no (98 Conv left)`."""
    return [
        f"optimizations of {component}: {', '.join(f'{name} {text}' for name, text in optimizations.items())}"
        for component, optimizations in found.items()
    ]
