"""Tensors against tensors, wherever they are: `agreement.tensors` for torch."""

from __future__ import annotations

from pytest_sdperf.core.files.arrays import MINUS_INFINITY
from pytest_sdperf.core.reference_error import limit, reference_error, relative
from pytest_sdperf.tracing.definitions import Tensor


def distance(obtained: Tensor, reference: Tensor) -> float:
    """Return |obtained - reference| / |reference|, of flat tensors or of one shape; infinite where one is not finite.

    Against a reference of zeros it is infinite, too.
    """
    wanted = reference.double()
    return relative(float((obtained.double() - wanted).norm()), float(wanted.norm()))


def reference_error_of(plain: Tensor, reference: Tensor, *, dtype: str) -> float:
    """Return the error of plain torch in `dtype` (`core.reference_error`)."""
    return reference_error(distance(plain, reference), dtype=dtype)


def limit_of(plain: Tensor, reference: Tensor, *, dtype: str) -> float:
    """Return the largest error that passes; infinite where plain torch is not finite."""
    return limit(reference_error_of(plain, reference, dtype=dtype))


def leaves_range(plain: Tensor, exact: Tensor) -> bool:
    """Whether one tensor holds values that are not finite where another one, of its shape, holds numbers."""
    return bool((~plain.isfinite() & (exact.abs() < MINUS_INFINITY)).any())
