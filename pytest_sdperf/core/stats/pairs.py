"""Two sides measured in turns: how much slower the second is, and whether that is certain.

Processes run in the order A B B A A B B A, so that whatever drifts evenly weighs on both sides alike after every
second pair. A replicate is the median of one fresh process; everything is computed on logarithms.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pytest_sdperf.core.stats.bounds import t_quantile
from pytest_sdperf.core.stats.interim import InterimAnalyses
from pytest_sdperf.core.values import Measurement

# Of so few pairs the spread is hardly known: there the processes of each side show theirs, which has twice as many
# degrees of freedom, and is too large rather than too small where the machine drifts.
PAIRED_FROM = 6
# Signs of more pairs than 13 have more patterns than this: then so many are drawn, always the same ones.
PATTERNS = 2**13
FIRST_ANALYSES = (2, 4, 6, 12)

Finding = Literal["slower", "faster", "same", "open"]


@dataclass(frozen=True)
class Pairs:
    """Two measurements whose processes took turns: A B B A A B B A; the samples of one place are a pair.

    Attributes:
        a: The side that is compared with: what the command line selects.
        b: The side that is judged.
        pythons: Interpreter of each side; empty for the suite's own.
        shared: Whether both loaded the same files.
    """

    a: Measurement
    b: Measurement
    pythons: tuple[str, str] = ("", "")
    shared: bool = False

    @property
    def count(self) -> int:
        """Number of whole pairs."""
        return min(len(self.a.samples), len(self.b.samples))

    @property
    def sides(self) -> Mapping[str, Measurement]:
        """Both measurements by the names of their sides."""
        return {"A": self.a, "B": self.b}


def order(number: int) -> tuple[int, int]:
    """Return the sides of a pair in the order in which they have their turn: A B in the first, B A in the second."""
    return (0, 1) if number % 2 == 0 else (1, 0)


def analyses_of(most: int) -> InterimAnalyses:
    """Return the interim analyses of at most so many pairs: at 2, 4, 6, 12, then twice as many; always even."""
    most -= most % 2
    early = tuple(count for count in FIRST_ANALYSES if count < most)
    return InterimAnalyses(
        (*early[:-1], *InterimAnalyses.doubling(early[-1], most).counts) if early else FIRST_ANALYSES[:1]
    )


@dataclass(frozen=True)
class Ratio:
    """B over A.

    Attributes:
        log: Mean log-ratio of the pairs: positive when B is slower.
        error: Its standard error.
        degrees: Degrees of freedom of `error`; 0 for a single pair, of which nothing is certain.
        differences: Log-ratio of each pair.
    """

    log: float
    error: float
    degrees: int
    differences: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """Geometric mean of the ratios."""
        return math.exp(self.log)

    def ends(self, confidence: float) -> tuple[float, float]:
        """Return the ends of the interval of `ratio`; each is kept with this one-sided confidence."""
        if not self.degrees:
            return 0.0, math.inf
        half = t_quantile(confidence, self.degrees) * self.error
        return math.exp(self.log - half), math.exp(self.log + half)

    @functools.cached_property
    def permutation_p(self) -> float:
        """One-sided p value: the share of all sign patterns of the pairs whose mean is as far out as this one."""
        import numpy as np
        from scipy import stats

        found = stats.permutation_test(
            (self.differences,),
            np.mean,
            permutation_type="samples",
            n_resamples=PATTERNS,
            alternative="greater" if self.log > 0 else "less",
            random_state=0,
        )
        return float(found.pvalue)


def compare(a: Sequence[float], b: Sequence[float]) -> Ratio:
    """Compare process medians of two sides; the pairs are (a[0], b[0]), (a[1], b[1]), ...

    Raises:
        ValueError: Not as many on both sides.
    """
    differences = tuple(math.log(y) - math.log(x) for x, y in zip(a, b, strict=True))
    count, log = len(differences), statistics.fmean(differences)
    if count < 2:
        return Ratio(log, math.inf, 0, differences)
    if count < PAIRED_FROM:
        pooled = statistics.variance(map(math.log, a)) + statistics.variance(map(math.log, b))
        return Ratio(log, math.sqrt(pooled / count), 2 * count - 2, differences)
    return Ratio(log, statistics.stdev(differences) / math.sqrt(count), count - 1, differences)


def finding(found: Ratio, *, effect: float, alpha: float, beta: float) -> Finding:
    """Say what one interim analysis finds.

    Args:
        found: B over A.
        effect: Smallest relative change that counts.
        alpha: Error rate that this analysis may spend on calling two equal sides slower, and as much on faster.
        beta: Error rate that it may spend on calling a side the same that is slower, or faster, by `effect`.

    Returns:
        `slower` or `faster` if the change is at least `effect` and certain, by t and by signs as far as so
        few pairs can say; `same` if every change of `effect` is ruled out; else `open`.
    """
    low, high = found.ends(1 - alpha)
    certain = max(alpha, 2.0 ** -len(found.differences), 1 / PATTERNS)
    if low > 1 and found.ratio >= 1 + effect and found.permutation_p <= certain:
        return "slower"
    if high < 1 and found.ratio <= 1 / (1 + effect) and found.permutation_p <= certain:
        return "faster"
    low, high = found.ends(1 - beta)
    return "same" if 1 / (1 + effect) < low and high < 1 + effect else "open"
