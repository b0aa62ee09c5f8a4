"""Is the score of an engine's pictures inside its window?"""

from __future__ import annotations

from collections.abc import Iterator

from pytest_sdperf.units import plural
from pytest_sdperf.values.outcomes import Outcome, Semantics, Verdict, Window

METRIC = "semantics"
_MOST_LOST = 5


def judge_semantics(semantics: Semantics) -> Verdict:
    """Judge the scores; what is better than its window is as wrong as what is worse: something else was drawn."""
    right = semantics.right
    outcome, code, sentence = Outcome.HELD, "pictures-as-reference", _told(semantics)
    if right.low <= 0:
        outcome, code, sentence = Outcome.INCONCLUSIVE, "reference-not-understood", _no_window(semantics)
    elif not all(window.inside for window in semantics.windows):
        outcome, code = Outcome.REGRESSED, _code(semantics)
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


def _code(semantics: Semantics) -> str:
    scores = [window for window in (semantics.right, semantics.clearness) if not window.inside]
    if not scores:
        return "pictures-moved"
    return "pictures-better" if all(window.obtained > window.high for window in scores) else "pictures-worse"


def _told(semantics: Semantics) -> str:
    """Say every score with its window; what is outside is marked."""
    count, right, clearness, shift = semantics.prompts, semantics.right, semantics.clearness, semantics.shift
    low, high, reference = (round(value * count) for value in (right.low, right.high, right.reference))
    texts = (
        (
            f"{round(right.obtained * count)} of {plural(count, 'picture')} show what their prompts say, of the "
            f"reference {reference} (window {low} to {high}{_mark(right)})"
        ),
        (
            f"clearness {clearness.obtained:.3f} against {clearness.reference:.3f} "
            f"(window {clearness.low:.3f} to {clearness.high:.3f}{_mark(clearness)})"
        ),
        f"things {shift.obtained:.2f} pixels from where the reference has them (at most {shift.high:g}{_mark(shift)})",
    )
    return f"{'; '.join(texts)}."


def _mark(window: Window) -> str:
    return "" if window.inside else ": OUTSIDE"


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
