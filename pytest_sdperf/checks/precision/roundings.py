"""One rounding of plain torch is one draw: where it is not enough to judge by, others are looked at.

A request feeds every error into its next step. Where a picture hangs on little, for instance on how bright its ground
is, the error of plain torch is not a size but a draw: with its initial latents rounded otherwise, the same code is five
times farther from the reference, or five times nearer. A limit that plain torch itself would miss says nothing.

So a request that is beyond the limit is judged by the largest error of several roundings. In each of them the initial
latents are moved by less than the dtype can tell, and everything else is the same.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

from pytest_sdperf.checks.agreement.steps import agreement_of
from pytest_sdperf.core.components import IMAGE, LATENTS
from pytest_sdperf.core.files.arrays import Arrays, not_finite
from pytest_sdperf.core.values.outcomes import Agreement, StepAgreement


def judged_by_several(
    found: Sequence[Agreement], others: Callable[[], Sequence[Arrays]], compare: Callable[[Arrays], Sequence[Agreement]]
) -> tuple[Agreement, ...]:
    """Return agreements as they are, or, where one is beyond its limit, with the widest limits of several roundings.

    Args:
        found: Judged by one rounding.
        others: Computes the outputs of plain torch in other roundings; called only where they are needed.
        compare: Judges what was obtained by one of them.
    """
    if not any(_is_finite(one) and not one.passed for one in found):
        return tuple(found)
    usable = [one for one in others() if not any(not_finite(one[name]) for name in (LATENTS, IMAGE) if name in one)]
    again = [compare(one) for one in usable]
    return tuple(_widest(one, [other[place] for other in again]) for place, one in enumerate(found))


def _is_finite(agreement: Agreement) -> bool:
    """Whether a wider limit could change anything."""
    return math.isfinite(agreement.error) and math.isfinite(agreement.limit) and agreement.limit > 0


def _widest(one: Agreement, others: Sequence[Agreement]) -> Agreement:
    if not _is_finite(one) or not others:
        return one
    if one.steps:
        groups = zip(one.steps, *(other.steps for other in others), strict=True)
        steps = [_widest_step(group) for group in groups]
        chosen = agreement_of(steps, dtype=one.dtype, level=one.level)
    else:
        chosen = max((one, *others), key=lambda agreement: agreement.limit)
    widest = dataclasses.replace(
        one,
        error=chosen.error,
        reference_error=chosen.reference_error,
        limit=chosen.limit,
        culprit=chosen.culprit,
        steps=chosen.steps,
        roundings=1 + len(others),
    )
    return dataclasses.replace(widest, name="", told="") if widest.passed else widest


def _widest_step(group: Sequence[StepAgreement]) -> StepAgreement:
    widest = max(group, key=lambda step: step.limit)
    return StepAgreement(group[0].error, widest.reference_error, widest.limit)
