"""A rate that was counted, and what it says about the true one."""

from __future__ import annotations

from dataclasses import dataclass

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Rate:
    """So many of so many independent trials.

    Attributes:
        found: Trials in which it happened.
        count: All trials.
    """

    found: int
    count: int

    @property
    def share(self) -> float:
        """The rate that was seen; 0 without a trial."""
        return self.found / self.count if self.count else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """Where the true rate is, with 95 % confidence (Clopper-Pearson); anywhere without a trial."""
        from scipy import stats

        if not self.count:
            return 0.0, 1.0
        low, high = stats.binomtest(self.found, self.count).proportion_ci(CONFIDENCE, method="exact")
        return float(low), float(high)
