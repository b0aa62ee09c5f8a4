"""What a device itself does today, whatever is tested on it: how fast it multiplies and copies. A leaf.

Standard library only: the worker that measures it imports it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Calibration:
    """Two rates of a device, measured once in a session and stored with what is accepted from it.

    Attributes:
        flops_per_s: Of a large matrix product of random numbers.
        bytes_per_s: Of a large copy within its memory, reading and writing together.
        dtype: Dtype of the product: `float16` on a GPU, `float32` on a CPU.
        by: Library that computed it, with its version.
    """

    flops_per_s: float
    bytes_per_s: float
    dtype: str
    by: str

    def __post_init__(self) -> None:
        """Refuse rates that no device has, wherever they come from."""
        for rate in (self.flops_per_s, self.bytes_per_s):
            if not 0 < rate < math.inf:
                raise ValueError(f"a rate of {rate:g} per second, which no device has")


@dataclass(frozen=True)
class Slowdown:
    """How much slower a device is than it was.

    Attributes:
        product, copy: Time of the same product, and of the same copy, relative to then: 1.25 is a quarter longer.
    """

    product: float
    copy: float

    @property
    def ratio(self) -> float:
        """The larger of the two: a case may depend on either."""
        return max(self.product, self.copy)


def slowdown(before: Iterable[Calibration | None], now: Calibration | None) -> Slowdown | None:
    """Compare a device with itself; None where nothing can be compared.

    Args:
        before: Of the stored sessions; those of another dtype, or by another library or version of it, do not
            count: a product that became slower with its library says nothing about the device.
        now: Of this session.
    """
    known = [one for one in before if one is not None and now is not None and _alike(one, now)]
    if now is None or not known:
        return None
    return Slowdown(
        statistics.median(one.flops_per_s for one in known) / now.flops_per_s,
        statistics.median(one.bytes_per_s for one in known) / now.bytes_per_s,
    )


def others(before: Iterable[Calibration | None], now: Calibration | None) -> tuple[str, ...]:
    """Return by which other libraries a device was calibrated before, where none of it compares with now.

    Args:
        before: Of the stored sessions.
        now: Of this session.
    """
    known = [one for one in before if one is not None]
    if now is None or any(_alike(one, now) for one in known):
        return ()
    return tuple(dict.fromkeys(one.by for one in known if one.by != now.by))


def _alike(one: Calibration, other: Calibration) -> bool:
    return (one.dtype, one.by) == (other.dtype, other.by)
