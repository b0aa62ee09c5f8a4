"""Numbers of a plan, each with where it comes from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

ESTIMATED = "estimated"


@dataclass(frozen=True)
class Estimate:
    """Seconds or bytes.

    Attributes:
        value: The number.
        sources: `estimated`, or where and when it was measured; of a sum, those of its parts. A zero needs none.
    """

    value: float = 0.0
    sources: tuple[str, ...] = ()

    @property
    def estimated(self) -> bool:
        """Whether a part of it was never measured."""
        return ESTIMATED in self.sources

    def __add__(self, other: Estimate) -> Estimate:
        """Add values and sources."""
        return Estimate(self.value + other.value, tuple(dict.fromkeys((*self.sources, *other.sources))))


def estimate(value: float) -> Estimate:
    """Return a number that nobody measured."""
    return Estimate(value, (ESTIMATED,))


def total(figures: Iterable[Estimate | None]) -> tuple[Estimate, int]:
    """Return the sum of what is known, and how many numbers nobody can tell."""
    known, unknown = Estimate(), 0
    for figure in figures:
        if figure is None:
            unknown += 1
        else:
            known += figure
    return known, unknown


def all_of(figures: Iterable[Estimate | None]) -> Estimate | None:
    """Return the sum; None where a part of it is not known."""
    known, unknown = total(figures)
    return None if unknown else known
