"""What moves a time: as a model with given numbers, and as it was measured on a machine."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

PROCESSES_OF_A_DRIFT = 24


class Noise(Protocol):
    """Draws the times of processes."""

    def session(self, draw: random.Random) -> Iterator[float]:
        """Yield process medians of one session without end, in seconds; the session has a level of its own."""


@dataclass(frozen=True)
class ModelNoise:
    """Noise by assumption, as standard deviations of the logarithm of a time.

    Attributes:
        day: Of the level of a session.
        process: Of a process in it.
        drift: Of the change over 24 processes, which is even.
        bad: Share of processes that are up to 30 % slower.
    """

    day: float
    process: float
    drift: float
    bad: float

    def session(self, draw: random.Random) -> Iterator[float]:
        """Yield process medians of one session without end, in seconds."""
        level, slope = draw.gauss(0, self.day), draw.gauss(0, self.drift) / PROCESSES_OF_A_DRIFT
        place = 0
        while True:
            worse = draw.uniform(0, math.log(1.3)) if draw.random() < self.bad else 0.0
            yield 0.02 * math.exp(level + slope * place + draw.gauss(0, self.process) + worse)
            place += 1


@dataclass(frozen=True)
class MeasuredNoise:
    """Noise as it was measured: what is drawn has happened, heavy tails included.

    Attributes:
        day: Standard deviation of the levels of the sessions; 0 where one session alone cannot show it.
        sessions: How many there were.
        drifts: Change over 24 processes in each session, by the straight line that fits it best.
        residuals: Distance of each process from that line.
    """

    day: float
    sessions: int
    drifts: tuple[float, ...]
    residuals: tuple[float, ...]

    @property
    def process(self) -> float:
        """Standard deviation of the residuals."""
        return math.sqrt(statistics.fmean(value**2 for value in self.residuals))

    def session(self, draw: random.Random) -> Iterator[float]:
        """Yield process medians of one session without end, in seconds."""
        level = draw.gauss(0, self.day)
        slope = draw.choice(self.drifts) * draw.choice((-1, 1)) / PROCESSES_OF_A_DRIFT
        place = 0
        while True:
            yield 0.02 * math.exp(level + slope * place + draw.choice(self.residuals))
            place += 1


def measured_noise(sessions: Sequence[Sequence[float]]) -> MeasuredNoise:
    """Return the noise of sessions of process medians, in the order in which they ran.

    Args:
        sessions: Three processes each, or more; at least one session.

    Raises:
        ValueError: No session has three.
    """
    levels, drifts, residuals = [], [], []
    for medians in sessions:
        if len(medians) < 3:
            continue
        logs = [math.log(median) for median in medians]
        slope, start = statistics.linear_regression(range(len(logs)), logs)
        # Two numbers were fitted: what is left spreads too little by that much.
        wider = math.sqrt(len(logs) / (len(logs) - 2))
        residuals += [wider * (log - start - slope * place) for place, log in enumerate(logs)]
        drifts.append(slope * PROCESSES_OF_A_DRIFT)
        levels.append(statistics.fmean(logs))
    if not levels:
        raise ValueError("no session has three processes")
    day = statistics.stdev(levels) if len(levels) > 1 else 0.0
    return MeasuredNoise(day, len(levels), tuple(drifts), tuple(residuals))
