"""Every denoising step against the same step of the reference, each with a limit of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_sdperf.checks.agreement.tensors import RELATIVE_L2, reference_error_of, relative_l2
from pytest_sdperf.core.reference_error import REFERENCE, limit
from pytest_sdperf.core.values.outcomes import Agreement, StepAgreement

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, Any]


def compare_steps(obtained: Array, reference: Array, *, plain: Array, dtype: str) -> Agreement:
    """Compare the latents after every UNet call.

    Args:
        obtained: Latents (UNet calls, N, 4, H/8, W/8).
        reference: The same of torch in higher precision.
        plain: The same of plain torch in `dtype`.
        dtype: The dtype that is tested.
    """
    if obtained.shape != reference.shape:
        return agreement_of([], dtype=dtype, culprit=_other_shape(obtained, reference))
    steps = []
    for one, exact, rough in zip(obtained, reference, plain, strict=True):
        reference_error = reference_error_of([rough], exact, dtype=dtype)
        steps.append(StepAgreement(relative_l2(one, exact), reference_error, limit(reference_error)))
    return agreement_of(steps, dtype=dtype)


def agreement_of(steps: Sequence[StepAgreement], *, dtype: str, level: str = "steps", culprit: str = "") -> Agreement:
    """Return the agreement of all steps: that of the first one beyond its limit, or of the one nearest to it.

    Args:
        steps: In order; none where there is nothing to compare.
        dtype: The dtype that is tested.
        level: `steps` or `drift`.
        culprit: Why nothing can be compared; empty if it can.
    """
    number = first_beyond(steps) or _nearest(steps)
    chosen = steps[number - 1] if number else StepAgreement(math.inf, 0.0, 0.0)
    return Agreement(
        level=level,
        metric=RELATIVE_L2,
        error=chosen.error,
        reference_error=chosen.reference_error,
        limit=chosen.limit,
        dtype=dtype,
        reference=REFERENCE[dtype],
        culprit=culprit or f"step {number} of {len(steps)}",
        steps=tuple(steps),
    )


def first_beyond(steps: Sequence[StepAgreement]) -> int | None:
    """Return the number of the first step beyond its limit, from 1; None where every step is within."""
    return next((number for number, step in enumerate(steps, 1) if not step.passed), None)


def _nearest(steps: Sequence[StepAgreement]) -> int | None:
    numbers = range(1, len(steps) + 1)
    return max(numbers, key=lambda number: steps[number - 1].error / steps[number - 1].limit, default=None)


def _other_shape(obtained: Array, reference: Array) -> str:
    if len(obtained) != len(reference):
        return f"{len(obtained)} UNet calls were made, and {len(reference)} by the reference"
    return f"the latents have shape {obtained.shape[1:]}, and those of the reference {reference.shape[1:]}"
