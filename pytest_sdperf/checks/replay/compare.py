"""Answers beside each other and beside torch's."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

from pytest_sdperf.checks.agreement.tensors import compare, reference_error_of, relative_l2, share_of_limit
from pytest_sdperf.core.files.arrays import Array, Arrays, not_finite
from pytest_sdperf.core.reference_error import limit
from pytest_sdperf.core.values.replays import AnswerSpread, CallAgreement

NEARER = 10
"""How many times its limit the answer to other inputs must be away: else nobody could tell it from a wrong one."""


def limits_of(exact: Arrays, rough: Sequence[Arrays], *, dtype: str) -> dict[str, float]:
    """Return output -> largest distance that passes: twice that of plain torch from its reference.

    Args:
        exact: What torch answers in higher precision.
        rough: What it answers in `dtype`, in one rounding or several: the largest distance counts.
        dtype: The dtype that is tested.
    """
    return {
        name: limit(reference_error_of([one[name] for one in rough], array, dtype=dtype))
        for name, array in exact.items()
    }


def spread_of(of: str, answers: Sequence[Arrays], limits: Mapping[str, float]) -> AnswerSpread:
    """Compare answers with the first of them; the output nearest to its limit decides.

    Args:
        of: What gave them.
        answers: Arrays by output name, two or more.
        limits: Output -> largest distance that passes.
    """
    first, *others = answers
    found = [
        (max(_distance(other.get(name), first[name]) for other in others), limit, name)
        for name, limit in limits.items()
    ]
    largest, limit, output = max(found, key=lambda one: share(one[0], one[1]))
    equal = all(_same(other.get(name), first[name]) for other in others for name in limits)
    return AnswerSpread(of, largest, limit, equal, output)


def answer_of(call: str, obtained: Arrays, exact: Arrays, rough: Sequence[Arrays], *, dtype: str) -> CallAgreement:
    """Compare one answer with torch's, as `limits_of` does; the output nearest to its limit decides."""
    alone = [
        max(
            (
                compare(
                    {name: obtained[name]} if name in obtained else {},
                    {name: array},
                    plain=plain,
                    level="answer",
                    dtype=dtype,
                )
                for plain in ({name: one[name]} for one in rough)
            ),
            key=lambda found: found.limit,
        )
        for name, array in exact.items()
    ]
    found = max(alone, key=share_of_limit)
    return CallAgreement(call, found.error, found.reference_error, found.limit, found.culprit)


def is_indistinct(one: Arrays, other: Arrays, limits: Mapping[str, float]) -> bool:
    """Whether two answers of torch are so near to each other that neither could be told from the other."""
    finite = all(map(math.isfinite, limits.values()))  # else nothing is known of it
    return finite and all(_distance(other[name], one[name]) <= NEARER * limit for name, limit in limits.items())


def with_stale(
    answer: CallAgreement, obtained: Arrays, earlier: Arrays, limits: Mapping[str, float], *, call: str
) -> CallAgreement:
    """Return a wrong answer that says so where it is the one to an earlier call."""
    if answer.passed or not all(map(math.isfinite, limits.values())):
        return answer
    if any(_distance(obtained.get(name), earlier[name]) > limit for name, limit in limits.items()):
        return answer
    return dataclasses.replace(answer, stale=call)


def _distance(obtained: Array | None, first: Array) -> float:
    if obtained is None or obtained.shape != first.shape:
        return math.inf
    if _same(obtained, first) and not not_finite(first):
        return 0.0
    return relative_l2(obtained, first)


def _same(obtained: Array | None, first: Array) -> bool:
    return obtained is not None and obtained.shape == first.shape and obtained.tobytes() == first.tobytes()


def share(distance: float, limit: float) -> float:
    """Return how much of a limit a distance is; infinite where that is no number."""
    found = distance / limit if limit else math.inf
    return found if math.isfinite(found) else math.inf
