"""When growing data may be looked at, and how much of an error rate each look may spend.

Whoever measures a little more and looks again, until something is found, finds a difference sooner or later where none
is. So the looks are planned before the first sample, each has an error rate of its own, and these add up to the whole:
then it is kept however the looks depend on each other.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Looks:
    """Planned looks.

    Attributes:
        counts: Numbers of replicates at which one looks, rising; at least one.
        exponent: How late the error rate is spent: by the look at n of N replicates, (n / N) ** exponent of it is. With
            1 a clear case may end early; with 2 most is left for the last look, which hardly loses by the others.
    """

    counts: tuple[int, ...]
    exponent: float = 1.0

    @classmethod
    def doubling(cls, first: int, most: int, *, exponent: float = 1.0) -> Looks:
        """Return looks at `first`, twice as many, ..., and at last at `most` (or at `first`, if that is more)."""
        counts = [max(first, 1)]
        while counts[-1] < most:
            counts.append(min(2 * counts[-1], most))
        return cls(tuple(counts), exponent)

    @property
    def last(self) -> int:
        """Replicates at the last look."""
        return self.counts[-1]

    def share(self, count: int) -> float:
        """Return the share of the error rate that the look at `count` replicates may spend.

        More than planned count as the last look, fewer as the first.
        """
        reached = max((look for look in self.counts if look <= count), default=self.counts[0])
        before = max((look for look in self.counts if look < reached), default=0)
        return self._spent(reached) - self._spent(before)

    def _spent(self, count: int) -> float:
        return float((count / self.last) ** self.exponent)

    def more(self, count: int) -> int:
        """Return how many replicates are missing until the next look after `count`; 0 after the last."""
        return next((look - count for look in self.counts if look > count), 0)
