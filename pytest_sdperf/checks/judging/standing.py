"""How a number stands to the interval in which stored sessions let it be expected, in words: latency and metrics."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from pytest_sdperf.core.stats.bounds import Interval
from pytest_sdperf.core.units import above_or_below, percent, plural, share

NO_REPLICATES = "no process was repeated, neither now nor in the baseline, so chance cannot be told from change"


@dataclass(frozen=True)
class Standing:
    """A number beside its interval.

    Attributes:
        obtained: The number, above 0.
        interval: Where it was expected.
        processes: How many there are, of now and of the stored sessions.
        spelled: Says such a number with its unit.
    """

    obtained: float
    interval: Interval
    processes: int
    spelled: Callable[[float], str]

    @property
    def ratio(self) -> float:
        """How many times the center it is."""
        return self.obtained / self.interval.center

    @property
    def change(self) -> float:
        """The same, whichever is larger."""
        return max(self.ratio, 1 / self.ratio)

    def compared(self, now: str = "", before: str = "") -> str:
        """Return `10.2 ms is 2.0 % above its baseline of 10.0 ms`, with words of their own in place of the numbers."""
        now, before = now or self.spelled(self.obtained), before or self.spelled(self.interval.center)
        return f"{now} is {above_or_below(self.ratio)} its baseline of {before}"

    @property
    def held(self) -> str:
        """Up to where it would have held, and by what."""
        return f"held up to {self.spelled(self.interval.high)} {self._basis}"

    @property
    def beyond(self) -> str:
        """The same on the side on which it lies."""
        return self.held if self.ratio >= 1 else f"held down to {self.spelled(self.interval.low)} {self._basis}"

    @property
    def hidden(self) -> str:
        """What noise would hide."""
        return f"noise would hide a change of {percent(self.interval.ratio)}"

    def too_noisy(self, widest: float) -> str:
        """Say that the interval reaches further than may be, as a relative change; empty where it does not."""
        if self.interval.ratio <= 1 + widest:
            return ""
        return f"{self.hidden}, and at most {share(widest)} is allowed"

    def ends(self, needed: float) -> tuple[float | None, float | None]:
        """Return the ends of the interval, the lower one for changes from `needed` on; None without replicates."""
        if math.isinf(self.interval.ratio):
            return None, None
        return self.interval.center / max(self.interval.ratio, needed), self.interval.high

    @property
    def _basis(self) -> str:
        sessions = plural(self.interval.sessions, "stored session")
        if self.interval.basis == "sessions":
            return f"by {sessions}"
        return f"by the spread of {self.processes} processes; {sessions} cannot show how days differ"
