"""Is the score of an engine's pictures inside its window?"""

from __future__ import annotations

from collections.abc import Iterator

from pytest_sdperf.checks.semantics.finding import ReferenceScores, Semantics, Window
from pytest_sdperf.core.units import plural
from pytest_sdperf.core.values.outcomes import Outcome, Verdict

METRIC = "pictures"
_MOST_LOST = 5


def judge_semantics(semantics: Semantics) -> Verdict:
    """Judge the scores; what is better than its window is as wrong as what is worse: something else was drawn.

    The reference comes first: an engine that draws with the same libraries agrees with whatever these do wrongly.
    """
    right, reference = semantics.right, semantics.reference
    if reference is not None and not all(window.inside for window in reference.windows):
        return _wrong_reference(semantics.prompts, reference)
    outcome, code, sentence = Outcome.PASSED, "pictures-as-reference", _told(semantics)
    if right.low <= 0:
        outcome, code, sentence = Outcome.INCONCLUSIVE, "reference-not-understood", _no_window(semantics)
    elif not all(window.inside for window in semantics.windows):
        outcome, code = Outcome.FAILED, _code(semantics)
    return Verdict(
        outcome,
        code,
        sentence,
        METRIC,
        obtained=right.obtained,
        expected=right.reference,
        low=right.low,
        high=right.high,
        details=tuple(_details(semantics)) if outcome is Outcome.FAILED else (),
    )


def _wrong_reference(prompts: int, reference: ReferenceScores) -> Verdict:
    right = reference.right
    return Verdict(
        Outcome.INVALID,
        "reference-wrong",
        f"The reference is wrong, so that what agrees with it tells nothing: {_drawn(prompts, reference)}. "
        f"{_libraries(reference)}",
        METRIC,
        obtained=right.obtained,
        expected=right.reference,
        low=right.low,
        high=right.high,
    )


def _drawn(prompts: int, reference: ReferenceScores) -> str:
    right, clearness, shift = reference.windows
    low, high, before = (round(value * prompts) for value in (right.low, right.high, right.reference))
    return (
        f"torch in float32 draws {round(right.obtained * prompts)} of {plural(prompts, 'picture')} as their prompts "
        f"say, where these weights drew {before} when they were stored (window {low} to {high}{_mark(right)}); "
        f"{_clear(clearness)}; things {shift.obtained:.2f} pixels from where they were then (at most "
        f"{shift.high:g}{_mark(shift)})"
    )


def _libraries(reference: ReferenceScores) -> str:
    """Say which libraries draw otherwise, and what to type."""
    before, now = reference.stored_versions, reference.versions
    changed = [name for name in before if now.get(name) != before[name]]
    if not changed:
        listed = ", ".join(f"{name} {version}" for name, version in before.items())
        return f"The libraries are those of then ({listed}); type `sdperf doctor` to see what else is installed."
    listed = ", ".join(f"{name} {now.get(name, 'missing')} instead of {before[name]}" for name in changed)
    wanted = " ".join(f"{name}=={before[name].partition('+')[0]}" for name in changed)
    return f"Now there is {listed}; to draw as then, type: pip install {wanted}"


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
        _clear(clearness),
        f"things {shift.obtained:.2f} pixels from where the reference has them (at most {shift.high:g}{_mark(shift)})",
    )
    return f"{'; '.join(texts)}."


def _clear(clearness: Window) -> str:
    return (
        f"clearness {clearness.obtained:.3f} against {clearness.reference:.3f} "
        f"(window {clearness.low:.3f} to {clearness.high:.3f}{_mark(clearness)})"
    )


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
