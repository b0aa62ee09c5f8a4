"""Half precision against single precision, from the same latents: how far it drifts with every denoising step.

An engine may drift at most `FACTOR` times as far as plain torch does. How far torch itself may drift follows from
arithmetic: a relative rounding error is proportional to the unit of the floating type, so in half precision it is that
of single precision (which float64 shows) times the ratio of the units, 2^13 for float16 and 2^16 for bfloat16. That is
an upper bound: matrix products of half precision add up in single precision and round once, so that thin models drift
by a seventh of it. What goes beyond is no rounding: a value that left the range, or one that vanished below it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pytest_sdperf.checks.agreement.ranges import origin_of, story
from pytest_sdperf.checks.agreement.steps import agreement_of
from pytest_sdperf.checks.agreement.tensors import yardstick_of
from pytest_sdperf.checks.images.similarity import errors
from pytest_sdperf.core.components import IMAGE, LATENTS
from pytest_sdperf.core.files.arrays import not_finite
from pytest_sdperf.core.values.outcomes import Agreement, Step
from pytest_sdperf.core.yardsticks import HALF_UNIT, limit

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]
    Arrays = Mapping[str, Array]

DRIFT = "drift"
ROUNDING = "rounding"


def drift_of_torch(half: Arrays, single: Arrays, *, exact: Arrays, floating: str) -> Agreement:
    """Compare torch in half precision with torch in float32.

    Args:
        half: Outputs of a request in half precision.
        single: The same in float32.
        exact: The same in float64, which says how far rounding takes float32.
        floating: `float16` or `bfloat16`.
    """
    ratio = HALF_UNIT[floating] / HALF_UNIT["float32"]
    explained = [ratio * error for error in _errors(single[LATENTS], exact[LATENTS], floating="float32")]
    steps = [
        Step(error, bound, bound)
        for error, bound in zip(_errors(half[LATENTS], single[LATENTS], floating=floating), explained, strict=True)
    ]
    return _agreement(steps, half, single, floating=floating, by=ROUNDING)


def drift_of_engine(half: Arrays, single: Arrays, *, plain: tuple[Arrays, Arrays], floating: str) -> Agreement:
    """Compare an engine in half precision with the same engine in float32.

    Args:
        half: Outputs of a request in half precision.
        single: The same in float32.
        plain: Those of plain torch, in half precision and in float32.
        floating: `float16` or `bfloat16`.
    """
    own = _errors(half[LATENTS], single[LATENTS], floating=floating)
    steps = [
        Step(error, yardstick, limit(yardstick))
        for error, yardstick in zip(own, _errors(plain[0][LATENTS], plain[1][LATENTS], floating=floating), strict=True)
    ]
    return _agreement(steps, half, single, floating=floating, by="torch")


def _errors(obtained: Array, reference: Array, *, floating: str) -> list[float]:
    """Return the distance of every step, no smaller than rounding the reference itself would make it."""
    return [yardstick_of([one], other, floating=floating) for one, other in zip(obtained, reference, strict=True)]


def _agreement(steps: list[Step], half: Arrays, single: Arrays, *, floating: str, by: str) -> Agreement:
    origin = origin_of(half)
    broken = origin is not None or not_finite(half[IMAGE])
    return dataclasses.replace(
        agreement_of(steps, floating=floating, level=DRIFT),
        by=by,
        details={} if broken else errors(half[IMAGE], single[IMAGE]),
        name="overflow" if origin is not None and floating == "float16" else "",
        told=story(origin, single, floating=floating, of="float32") if origin is not None else "",
    )
