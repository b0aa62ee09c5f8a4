"""Interim analyses: when growing data may be looked at, and how much of the error rate each of them may spend.

Whoever measures a little more and looks again, until something is found, finds a difference sooner or later where none
is. So these analyses are planned before the first sample, each has an error rate of its own, and these add up to the
whole: then it is kept however they depend on each other.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class InterimAnalyses:
    """Planned interim analyses of growing data.

    Attributes:
        counts: Numbers of replicates that are analyzed, rising; at least one.
        exponent: How late the error rate is spent: by the analysis of n of N replicates, (n / N) ** exponent of it is.
            With 1 a clear case may end early; with 2 most is left for the last one, which hardly loses by the others.
    """

    counts: tuple[int, ...]
    exponent: float = 1.0

    @classmethod
    def doubling(cls, first: int, most: int, *, exponent: float = 1.0) -> InterimAnalyses:
        """Return analyses at `first`, twice as many, ..., and at last at `most` (or at `first`, if that is more)."""
        counts = [max(first, 1)]
        while counts[-1] < most:
            counts.append(min(2 * counts[-1], most))
        return cls(tuple(counts), exponent)

    @property
    def last(self) -> int:
        """Replicates at the last analysis."""
        return self.counts[-1]

    def share(self, count: int) -> float:
        """Return the share of the error rate that the analysis of `count` replicates may spend.

        More than planned count as the last one, fewer as the first.
        """
        reached = max((one for one in self.counts if one <= count), default=self.counts[0])
        before = max((one for one in self.counts if one < reached), default=0)
        return self._spent(reached) - self._spent(before)

    def _spent(self, count: int) -> float:
        return float((count / self.last) ** self.exponent)

    def more(self, count: int) -> int:
        """Return how many replicates are missing until the next analysis after `count`; 0 after the last."""
        return next((one - count for one in self.counts if one > count), 0)
