"""Where a score may lie, derived from the reference alone.

A share or a mean may lie where another draw of as many prompts would bring that of the reference: what is outside is a
difference that chance in the choice of prompts does not make. An engine draws the same prompts from the same latents,
so a healthy one is far nearer, and its things stand where those of the reference do, as far as an image can tell.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from pytest_sdperf.core.stats.bounds import t_quantile

SHIFT_LIMIT = 0.5
"""Pixels: an edge is read to one pixel, so the centre between two edges to half of one."""
CONFIDENCE = 0.99
_TAIL = (1 - CONFIDENCE) / 2


def share_window(right: int, count: int) -> tuple[float, float]:
    """Return the window of a share of right pictures.

    The predictive distribution of another `count` prompts after `right` of `count`, from Jeffreys' prior: beta-binomial
    with right + 1/2 and count - right + 1/2.
    """
    from scipy.stats import betabinom

    predicted = betabinom(count, right + 0.5, count - right + 0.5)
    return float(predicted.ppf(_TAIL)) / count, float(predicted.ppf(1 - _TAIL)) / count


def mean_window(values: Sequence[float]) -> tuple[float, float]:
    """Return the window of a mean: Student's prediction of the mean of as many further values."""
    count = len(values)
    if count < 2:
        return -math.inf, math.inf
    half = t_quantile(1 - _TAIL, count - 1) * statistics.stdev(values) * math.sqrt(2 / count)
    mean = statistics.fmean(values)
    return mean - half, mean + half
