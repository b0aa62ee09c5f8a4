"""Is the score of an engine's pictures inside its window?"""

from __future__ import annotations

from collections.abc import Iterator

from pytest_sdperf.outcomes import Outcome, Semantics, Verdict, Window
from pytest_sdperf.units import plural

METRIC = "semantics"
_MOST_LOST = 5


def judge_semantics(semantics: Semantics) -> Verdict:
    """Judge both scores; what is better than its window is as wrong as what is worse: something else was drawn."""
    right, clearness = semantics.right, semantics.clearness
    outcome, code, sentence = Outcome.HELD, "pictures-as-reference", _all_inside(semantics)
    if right.low <= 0:
        outcome, code, sentence = Outcome.INCONCLUSIVE, "reference-not-understood", _no_window(semantics)
    elif not (right.inside and clearness.inside):
        outcome, code = Outcome.REGRESSED, _code(right if not right.inside else clearness)
        sentence = _outside(semantics)
    return Verdict(
        outcome,
        code,
        sentence,
        METRIC,
        obtained=right.obtained,
        expected=right.reference,
        low=right.low,
        high=right.high,
        details=tuple(_details(semantics)) if outcome is Outcome.REGRESSED else (),
    )


def _code(window: Window) -> str:
    return "pictures-better" if window.obtained > window.high else "pictures-worse"


def _shares(semantics: Semantics) -> str:
    count, right = semantics.prompts, semantics.right
    return f"{round(right.obtained * count)} of {plural(count, 'picture')} show what their prompts say"


def _all_inside(semantics: Semantics) -> str:
    reference = round(semantics.right.reference * semantics.prompts)
    return f"{_shares(semantics)}; of the reference {reference} do, and {_clear(semantics)}."


def _clear(semantics: Semantics) -> str:
    window = semantics.clearness
    return (
        f"their clearness is {window.obtained:.3f} against {window.reference:.3f} "
        f"(window {window.low:.3f} to {window.high:.3f})"
    )


def _outside(semantics: Semantics) -> str:
    count, window = semantics.prompts, semantics.right
    low, high, reference = (round(value * count) for value in (window.low, window.high, window.reference))
    told = f"of the reference {reference} do, which allows {low} to {high}"
    return f"{_shares(semantics)}; {told}; {_clear(semantics)}."


def _no_window(semantics: Semantics) -> str:
    reference = round(semantics.right.reference * semantics.prompts)
    return (
        f"The reference itself draws {reference} of {plural(semantics.prompts, 'prompt')} right, so no picture could "
        f"be told from a wrong one. Draw more prompts with --sdperf-prompts, or take the weights that come with the "
        f"model."
    )


def _details(semantics: Semantics) -> Iterator[str]:
    if semantics.wrong:
        counts = sorted(semantics.wrong.items(), key=lambda entry: (-entry[1], entry[0]))
        yield f"not as said: {', '.join(f'{name} in {count}' for name, count in counts)}"
    for caption in semantics.lost[:_MOST_LOST]:
        yield f"lost: {caption}"
    if len(semantics.lost) > _MOST_LOST:
        yield f"and {len(semantics.lost) - _MOST_LOST} more"
