"""Half precision against single precision, from the same latents: how far it drifts with every denoising step.

An engine may drift at most `FACTOR` times as far as plain torch does. How far torch itself may drift follows from
arithmetic: a relative rounding error is proportional to the unit of the dtype, so in half precision it is that
of single precision (which float64 shows) times the ratio of the units, 2^13 for float16 and 2^16 for bfloat16. That is
an upper bound: matrix products of half precision add up in single precision and round once, so that thin models drift
by a seventh of it. What goes beyond is no rounding: a value that left the range, or one that vanished below it.
"""

from __future__ import annotations

import dataclasses

from pytest_sdperf.checks.agreement.ranges import origin_of, story
from pytest_sdperf.checks.agreement.steps import agreement_of
from pytest_sdperf.checks.agreement.tensors import reference_error_of
from pytest_sdperf.checks.images.similarity import errors
from pytest_sdperf.core.components import IMAGE, LATENTS
from pytest_sdperf.core.files.arrays import Array, Arrays, not_finite
from pytest_sdperf.core.reference_error import HALF_UNIT, limit
from pytest_sdperf.core.values.outcomes import Agreement, StepAgreement

DRIFT = "drift"
ROUNDING = "rounding"


def drift_of_torch(half: Arrays, single: Arrays, *, exact: Arrays, dtype: str) -> Agreement:
    """Compare torch in half precision with torch in float32.

    Args:
        half: Outputs of a request in half precision.
        single: The same in float32.
        exact: The same in float64, which says how far rounding takes float32.
        dtype: `float16` or `bfloat16`.
    """
    ratio = HALF_UNIT[dtype] / HALF_UNIT["float32"]
    explained = [ratio * error for error in _errors(single[LATENTS], exact[LATENTS], dtype="float32")]
    steps = [
        StepAgreement(error, bound, bound)
        for error, bound in zip(_errors(half[LATENTS], single[LATENTS], dtype=dtype), explained, strict=True)
    ]
    return _agreement(steps, half, single, dtype=dtype, by=ROUNDING)


def drift_of_engine(half: Arrays, single: Arrays, *, plain: tuple[Arrays, Arrays], dtype: str) -> Agreement:
    """Compare an engine in half precision with the same engine in float32.

    Args:
        half: Outputs of a request in half precision.
        single: The same in float32.
        plain: Those of plain torch, in half precision and in float32.
        dtype: `float16` or `bfloat16`.
    """
    own = _errors(half[LATENTS], single[LATENTS], dtype=dtype)
    steps = [
        StepAgreement(error, reference_error, limit(reference_error))
        for error, reference_error in zip(own, _errors(plain[0][LATENTS], plain[1][LATENTS], dtype=dtype), strict=True)
    ]
    return _agreement(steps, half, single, dtype=dtype, by="torch")


def _errors(obtained: Array, reference: Array, *, dtype: str) -> list[float]:
    """Return the distance of every step, no smaller than rounding the reference itself would make it."""
    return [reference_error_of([one], other, dtype=dtype) for one, other in zip(obtained, reference, strict=True)]


def _agreement(steps: list[StepAgreement], half: Arrays, single: Arrays, *, dtype: str, by: str) -> Agreement:
    origin = origin_of(half)
    broken = origin is not None or not_finite(half[IMAGE])
    return dataclasses.replace(
        agreement_of(steps, dtype=dtype, level=DRIFT),
        by=by,
        details={} if broken else errors(half[IMAGE], single[IMAGE]),
        name="overflow" if origin is not None and dtype == "float16" else "",
        told=story(origin, single, dtype=dtype, of="float32") if origin is not None else "",
    )
