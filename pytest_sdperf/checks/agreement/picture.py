"""The decoded image against that of the reference: as a tensor, and as a person sees it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_sdperf.checks.agreement.tensors import compare
from pytest_sdperf.checks.images.defects import find_defect, levels
from pytest_sdperf.checks.images.similarity import errors
from pytest_sdperf.core.components import IMAGE
from pytest_sdperf.core.files.arrays import not_finite
from pytest_sdperf.core.reference_error import FACTOR
from pytest_sdperf.core.values.outcomes import Agreement

if TYPE_CHECKING:
    import numpy as np

    Images: TypeAlias = np.ndarray[Any, Any]

# What a reference that shows nothing is called; of one that is noisy or partly clipped the comparison still tells.
_BLANK = ("NaN", "black", "flat")


def compare_picture(obtained: Images, reference: Images, *, plain: Images, dtype: str) -> Iterator[Agreement]:
    """Yield the agreement of the image as a tensor, with the name of what is wrong with it, then that of each metric.

    Args:
        obtained: Images (N, 3, H, W), nominally in [-1, 1].
        reference: Those of torch in higher precision.
        plain: Those of plain torch in `dtype`.
        dtype: The dtype that is tested.
    """
    whole = compare({IMAGE: obtained}, {IMAGE: reference}, plain={IMAGE: plain}, level=IMAGE, dtype=dtype)
    blank = find_defect(reference)
    if blank is not None and blank.name in _BLANK:
        told = f"The image of the reference is {blank.name} itself: {blank.told}. Nothing can be seen by it."
        yield dataclasses.replace(whole, error=math.inf, limit=0.0, name=blank.name, told=told)
        return
    defect = find_defect(obtained, reference) if obtained.shape == reference.shape and not whole.passed else None
    if defect is not None:
        whole = dataclasses.replace(whole, name=defect.name, told=f"The image is {defect.name}: {defect.told}.")
    yield whole
    if obtained.shape == reference.shape and not not_finite(obtained) and not not_finite(plain):
        yield from _metrics(whole, obtained, reference, plain)


def _metrics(whole: Agreement, obtained: Images, reference: Images, plain: Images) -> Iterator[Agreement]:
    found, reference_errors = errors(obtained, reference), errors(plain, reference)
    for metric, limit in _limits(reference, plain).items():
        yield dataclasses.replace(
            whole,
            metric=metric,
            error=found[metric],
            reference_error=reference_errors[metric],
            limit=limit,
            culprit="",
            details={},
            name="",
            told="",
        )


def _limits(reference: Images, plain: Images) -> dict[str, float]:
    """Return the largest error that passes, by metric: that of a picture which is `FACTOR` times as far off as `plain`.

    No metric needs a formula for that: the picture is made and looked at. A picture that differs by no more than
    rounding to the 256 levels of a file is the same to everybody, so the limit is never below that.
    """
    import numpy as np

    exact = reference.astype(np.float64)
    farther = exact + FACTOR * (plain.astype(np.float64) - exact)
    rounded = np.round(levels(exact)) / 127.5 - 1
    allowed = [errors(picture, exact) for picture in (farther, rounded)]
    return {metric: max(one[metric] for one in allowed) for metric in allowed[0]}
