"""How far a new session may lie from the stored ones before it counts as different.

The replicate is the median of one fresh process; everything is computed on logarithms, so a bound is a ratio.
"""

from __future__ import annotations

import functools
import math
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

SESSIONS_FOR_SPREAD = 3
_LARGEST = math.log(sys.float_info.max)

# The median of n normal values spreads at most this much more than their mean (its limit for large n).
MEDIAN_SPREAD = math.sqrt(math.pi / 2)


@dataclass(frozen=True)
class Interval:
    """Where the median of a new session is expected.

    Attributes:
        center: Geometric mean of the stored sessions, in their unit.
        ratio: A new session is inside from `center / ratio` to `center * ratio`; infinite without any replicate, or
            where few of them are so far apart that noise may do anything.
        spread: Standard deviation of the logarithm that `ratio` rests on; NaN without any replicate.
        basis: `sessions` (three or more of them), `processes` (fewer), or `nothing` (not one replicate).
        sessions: Stored sessions that were used.
    """

    center: float
    ratio: float
    spread: float
    basis: Literal["sessions", "processes", "nothing"]
    sessions: int

    @property
    def low(self) -> float:
        """Lower end, in the unit of the samples."""
        return self.center / self.ratio

    @property
    def high(self) -> float:
        """Upper end, in the unit of the samples."""
        return self.center * self.ratio


@functools.lru_cache(maxsize=1024)
def t_quantile(probability: float, degrees: int) -> float:
    """Return the quantile of Student's t distribution."""
    # What `scipy.stats.t.ppf` calls; importing `scipy.stats` takes a second, which nearly every run would wait for.
    from scipy.special import stdtrit

    return float(stdtrit(degrees, probability))


def log_median(medians: Sequence[float]) -> float:
    """Return the logarithm of the median of process medians: the one number that a session contributes."""
    return math.log(statistics.median(medians))


def pooled_spread(sessions: Sequence[Sequence[float]]) -> tuple[float, int]:
    """Return the standard deviation of log process medians inside sessions, pooled, and its degrees of freedom.

    Returns:
        (NaN, 0) where no session has two processes.
    """
    squares, degrees = 0.0, 0
    for medians in sessions:
        if len(medians) > 1:
            squares += statistics.variance(map(math.log, medians)) * (len(medians) - 1)
            degrees += len(medians) - 1
    return (math.sqrt(squares / degrees), degrees) if degrees else (math.nan, 0)


def predict(
    stored: Sequence[Sequence[float]],
    new: Sequence[float],
    *,
    min_effect: float,
    confidence: float,
) -> Interval:
    """Bound the median of a new session from stored sessions of process medians.

    Three or more sessions: the t prediction bound for one further session, from the spread between sessions, so
    that what differs from day to day is inside it; a session of fewer processes than the stored ones spreads more
    than they did; never narrower than the minimum effect. Fewer sessions: the pooled spread of processes, which does
    not know about days, beyond the minimum effect; more processes must not make it look as if they told about days.

    Args:
        stored: Process medians of each stored session, all positive; at least one session.
        new: Process medians of the new session, all positive.
        min_effect: Smallest relative change that counts (0.02 is 2 %).
        confidence: One-sided confidence of either end.

    Returns:
        The interval. Its `basis` is `nothing` when not one process was repeated.
    """
    centers = [log_median(medians) for medians in stored]
    center, count = math.exp(statistics.fmean(centers)), len(centers)
    floor = math.log1p(min_effect)
    if count >= SESSIONS_FOR_SPREAD:
        spread = statistics.stdev(centers)
        variance = spread**2 * (1 + 1 / count) + _of_fewer_processes(stored, new)
        half = t_quantile(confidence, count - 1) * math.sqrt(variance)
        return Interval(center, _ratio(max(half, floor)), spread, "sessions", count)
    spread, degrees = pooled_spread([*stored, new])
    if not degrees:
        return Interval(center, math.inf, math.nan, "nothing", count)
    variance_of_center = sum(1 / len(medians) for medians in stored) / count**2
    half = t_quantile(confidence, degrees) * spread * MEDIAN_SPREAD * math.sqrt(1 / len(new) + variance_of_center)
    return Interval(center, _ratio(half + floor), spread, "processes", count)


def _ratio(half: float) -> float:
    """Return the ratio of half an interval of logarithms; infinite where no float holds it."""
    return math.exp(half) if half < _LARGEST else math.inf


def _of_fewer_processes(stored: Sequence[Sequence[float]], new: Sequence[float]) -> float:
    """Return the variance of a session's center that comes from having fewer processes than the stored ones."""
    fewer = 1 / len(new) - statistics.fmean(1 / len(medians) for medians in stored)
    spread, degrees = pooled_spread([*stored, new])
    return (spread * MEDIAN_SPREAD) ** 2 * fewer if degrees and fewer > 0 else 0.0


def reach(stored: Sequence[Sequence[float]], new: Sequence[float], *, confidence: float) -> float:
    """Return how far, as a log-ratio, more processes may still move the center of a new session.

    Returns:
        Infinity when not one process was repeated.
    """
    spread, degrees = pooled_spread([*stored, new])
    if not degrees:
        return math.inf
    return t_quantile(confidence, degrees) * spread * MEDIAN_SPREAD / math.sqrt(len(new))
