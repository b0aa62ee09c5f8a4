"""How a number stands to what was expected, in words: by an interval of stored sessions, or by a tolerance."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from pytest_sdperf.core.stats.bounds import Interval
from pytest_sdperf.core.units import above_or_below, percent, plural, share
from pytest_sdperf.core.values.outcomes import Outcome, Verdict

NO_REPLICATES = "no process was repeated, neither now nor in the baseline, so chance cannot be told from change"


@dataclass(frozen=True)
class Standing:
    """A number beside the one that was expected.

    Attributes:
        obtained: The number.
        expected: What it is compared with, above 0.
        low, high: Inside these it is as expected.
        spelled: Says such a number with its unit.
        by: What these ends rest on, as the end of a sentence.
    """

    obtained: float
    expected: float
    low: float
    high: float
    spelled: Callable[[float], str]
    by: str

    @classmethod
    def in_interval(
        cls, obtained: float, interval: Interval, processes: int, spelled: Callable[[float], str]
    ) -> Standing:
        """Return how the middle of so many processes, of now and of the stored sessions, stands to an interval."""
        sessions = plural(interval.sessions, "stored session")
        by = f" by the spread of {processes} processes; {sessions} cannot show how days differ"
        by = f" by {sessions}" if interval.basis == "sessions" else by
        return cls(obtained, interval.center, interval.low, interval.high, spelled, by)

    @property
    def ratio(self) -> float:
        """How many times the expected one it is."""
        return self.obtained / self.expected

    @property
    def change(self) -> float:
        """The same, whichever is larger."""
        return max(self.ratio, 1 / self.ratio)

    def compared(self, now: str = "", before: str = "", *, verb: str = " is", its: str = "its") -> str:
        """Return `10.2 ms is 2.0 % above its baseline of 10.0 ms`, with words of their own in place of the numbers."""
        now, before = now or self.spelled(self.obtained), before or self.spelled(self.expected)
        return f"{now}{verb} {above_or_below(self.ratio)} {its} baseline of {before}"

    @property
    def held(self) -> str:
        """Up to where it would have held, and by what."""
        return f"held up to {self.spelled(self.high)}{self.by}"

    @property
    def beyond(self) -> str:
        """The same on the side on which it lies."""
        return self.held if self.ratio >= 1 else f"held down to {self.spelled(self.low)}{self.by}"

    @property
    def hidden(self) -> str:
        """What noise would hide."""
        hides = f"a change of {percent(self.high / self.expected)}" if math.isfinite(self.high) else "any change"
        return f"noise would hide {hides}"

    def too_noisy(self, widest: float) -> str:
        """Say that the interval reaches further than may be, as a relative change; empty where it does not."""
        if self.high <= self.expected * (1 + widest):
            return ""
        return f"{self.hidden}, and at most {share(widest)} is allowed"

    def verdict(self, outcome: Outcome, code: str, sentence: str, metric: str) -> Verdict:
        """Return the verdict on it; without replicates it has no ends."""
        low, high = (self.low, self.high) if math.isfinite(self.high) else (None, None)
        return Verdict(outcome, code, sentence, metric, self.obtained, self.expected, low, high)
