"""How far an optimized build may be from its reference, in errors of plain torch: the rule behind every limit.

Plain numbers: `agreement.tensors` measures distances of numpy arrays by it, and `tracing.distances` those of tensors.
"""

from __future__ import annotations

import math

FACTOR = 2.0
# Half of a unit in the last place: nothing rounded to this type can be nearer to the reference on average, and a
# plain run that happens to be luckier must not fail a build.
HALF_UNIT = {"float64": 2.0**-54, "float32": 2.0**-25, "float16": 2.0**-12, "bfloat16": 2.0**-9}
# Of float32, however long its errors add up: what moves further could as well have been rounded to float16.
MOST_ROUNDING = HALF_UNIT["float16"]
REFERENCE = {"float32": "float64", "float16": "float32", "bfloat16": "float32"}


def exact_and_rough(dtype: str) -> tuple[str, str]:
    """Return the dtypes of the reference and of the plain run of what is tested in one."""
    return REFERENCE[dtype], dtype


def relative(gap: float, norm: float) -> float:
    """Return how far something is from its reference, as a share of that; infinite where nobody can tell.

    Args:
        gap: 2-norm of the difference.
        norm: 2-norm of the reference; of one that is zero everywhere nothing is a share.
    """
    return gap / norm if norm and math.isfinite(gap) and math.isfinite(norm) else math.inf


def reference_error(*distances: float, dtype: str) -> float:
    """Return the error of plain torch; infinite where one of its distances is not finite.

    Args:
        distances: How far it is from the reference, in one rounding or several: the largest counts.
        dtype: The type that is tested: rounding to it is an error in any case.
    """
    finite = all(math.isfinite(one) for one in distances)  # `max` would pass over NaN
    return max(HALF_UNIT[dtype], *distances) if finite else math.inf


def limit(reference_error: float) -> float:
    """Return the largest error that passes where plain torch has this one; infinite where nothing can be judged."""
    return FACTOR * reference_error
