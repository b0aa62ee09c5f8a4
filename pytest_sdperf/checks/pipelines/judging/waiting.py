"""Did a case take longer because other programs used the processors? Then its build is not to blame."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from pytest_sdperf.baselines.stored import Session
from pytest_sdperf.core.units import share
from pytest_sdperf.core.values import Measurement, Sample

# Less is the noise of a machine that does nothing else.
REMARKABLE = 0.05


@dataclass(frozen=True)
class ThreadWait:
    """How much of their time the threads of the measuring processes waited for a processor.

    Attributes:
        now: Share in this measurement.
        before: Share in its baseline; 0 where it was not recorded.
    """

    now: float = 0.0
    before: float = 0.0

    @property
    def stretch(self) -> float:
        """How many times as long the same work may take now.

        Threads that never wait for each other take as many times as long as they have less of the processors. Those of
        one operator do: two of them get on only while both run, which is the square of that. Two cores with three other
        programs stretched a UNet 3.4 times, where its threads waited half of the time.
        """
        return ((1 - self.before) / (1 - self.now)) ** 2

    @property
    def told(self) -> str:
        """The clause that says it; empty where there is nothing to say."""
        if max(self.now, self.before) < REMARKABLE:
            return ""
        return (
            f"; its threads waited {share(self.now)} of the time for processors that something else used, "
            f"{share(self.before)} in the baseline"
        )

    def explains(self, ratio: float, limit: float) -> bool:
        """Whether a change may be inside a limit without it.

        Args:
            ratio: Time now over time before.
            limit: Largest such change, in either direction, that counts as none.
        """
        if ratio > 1:
            return self.now >= REMARKABLE and ratio / self.stretch <= limit
        return self.before >= REMARKABLE and self.stretch / ratio <= limit


def waiting(measurement: Measurement, before: Iterable[Session]) -> ThreadWait:
    """Compare a measurement with the stored sessions; where nobody knows it of the measurement, nobody waited."""
    now = waited_share(measurement.samples)
    if now is None:
        return ThreadWait()
    known = [one for session in before if (one := waited_share(session.samples)) is not None]
    return ThreadWait(now, statistics.median(known) if known else 0.0)


def disturbed_share(sample: Sample) -> float:
    """Return the share of their time that threads of a process waited; 0 where that is the noise of a quiet machine."""
    waited = sample.facts.get("waited", 0.0)
    return waited if waited >= REMARKABLE else 0.0


def most_waited(samples: Iterable[Sample]) -> float:
    """Return `disturbed_share` of the process that waited most; 0 where none was disturbed, or nobody knows."""
    return max(map(disturbed_share, samples), default=0.0)


def waited_share(samples: Iterable[Sample]) -> float | None:
    """Return the share of their time that threads waited, of the middle process; None where nobody knows."""
    known = [sample.facts["waited"] for sample in samples if "waited" in sample.facts]
    return statistics.median(known) if known else None
