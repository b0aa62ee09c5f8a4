"""Tensors against tensors: the distance, and the limit that plain torch in the same dtype sets."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_sdperf.core.files.arrays import not_finite
from pytest_sdperf.core.reference_error import REFERENCE, limit, reference_error, relative
from pytest_sdperf.core.values.outcomes import Agreement

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, Any]
    Arrays = Mapping[str, Array]

RELATIVE_L2 = "relative-l2"


def compare(obtained: Arrays, reference: Arrays, *, plain: Arrays, level: str, dtype: str) -> Agreement:
    """Compare outputs by name with the reference; the worst output decides.

    Args:
        obtained: What the engine computed.
        reference: torch in higher precision.
        plain: Plain torch in the engine's dtype.
        level: `component` or `image`.
        dtype: The engine's dtype.

    Returns:
        The agreement of the output with the largest share of its limit.
    """
    agreements = [
        _compare_one(name, obtained.get(name), reference[name], plain[name], level=level, dtype=dtype)
        for name in reference
    ]
    return max(agreements, key=share_of_limit)


def share_of_limit(agreement: Agreement) -> float:
    """Return the error as a share of its limit; infinite where one of them is not finite."""
    share = agreement.error / agreement.limit if agreement.limit else math.inf
    return share if math.isfinite(share) and math.isfinite(agreement.limit) else math.inf


def different(answers: Sequence[Arrays]) -> list[list[int]]:
    """Return which answers are equal bit for bit: groups of their numbers, in the order of the first of each."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for number, answer in enumerate(answers):
        bits = tuple((name, answer[name].shape, answer[name].tobytes()) for name in sorted(answer))
        groups.setdefault(bits, []).append(number)
    return list(groups.values())


def relative_l2(obtained: Array, reference: Array) -> float:
    """Return |obtained - reference| / |reference| in the 2-norm; infinite where a value of them is not finite.

    Against a reference of zeros it is infinite, too.
    """
    import numpy as np

    wanted = reference.astype(np.float64)
    with np.errstate(invalid="ignore"):  # infinite less infinite
        gap = obtained.astype(np.float64) - wanted
    return relative(float(np.linalg.norm(gap)), float(np.linalg.norm(wanted)))


def reference_error_of(plain: Sequence[Array], reference: Array, *, dtype: str) -> float:
    """Return the error of plain torch in `dtype`, the largest of one rounding or several (`core.reference_error`)."""
    return reference_error(*(relative_l2(one, reference) for one in plain), dtype=dtype)


def _compare_one(
    name: str, obtained: Array | None, reference: Array, plain: Array, *, level: str, dtype: str
) -> Agreement:
    import numpy as np

    own = reference_error_of([plain], reference, dtype=dtype)
    error, culprit, details, recognised = math.inf, "", {}, ""
    if obtained is None:
        culprit = f"output {name!r} is missing"
    elif obtained.shape != reference.shape:
        culprit = f"output {name!r} has shape {obtained.shape}, the reference {reference.shape}"
    elif bad := not_finite(obtained):
        culprit = f"output {name!r} holds {bad} of {np.size(obtained)} values that are not finite"
        recognised = "overflow" if dtype == "float16" and not not_finite(reference) else "NaN"
    else:
        error = relative_l2(obtained, reference)
        gap = np.abs(obtained.astype(np.float64) - reference.astype(np.float64))
        worst = np.unravel_index(int(gap.argmax()), gap.shape)
        culprit = f"{name}[{', '.join(str(int(index)) for index in worst)}]"
        details = {"max_abs": float(gap.max())}
    return Agreement(
        level=level,
        metric=RELATIVE_L2,
        error=error,
        reference_error=own,
        limit=limit(own),
        dtype=dtype,
        reference=REFERENCE[dtype],
        culprit=culprit,
        details=details,
        name=recognised,
    )
