"""Would more processes change a verdict? Then it is open, and some more are worth their time."""

from __future__ import annotations

import math

from pytest_sdperf.baselines.stored import StoredCase
from pytest_sdperf.checks.judging.fitness import Differences, unfit
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.pipelines.judging.latency import LATENCY
from pytest_sdperf.checks.pipelines.judging.memory import DRAWN, PEAKS
from pytest_sdperf.core.stats.bounds import reach
from pytest_sdperf.core.values import Measurement
from pytest_sdperf.core.values.outcomes import Outcome

OPEN = ("latency-open", "latency-no-replicates")
NOISY = "latency-too-noisy"
# How sure it must be that more processes would not change a verdict, before it is given early.
STILL_MOVES = 0.95


def more_processes(
    measurement: Measurement, stored: StoredCase | None, *, policy: Policy, differences: Differences
) -> int:
    """Return how many more processes to start before a measurement is judged again; 0 if its verdict is settled.

    A slower latency ends it only beyond what this analysis counts as one, so that analyzing again and again raises no
    false alarm; everything else ends it where more processes would hardly lead to another verdict. More memory is
    believed when twice the first processes all took it, and as many more as it takes where some of the baseline did,
    too.

    Args:
        measurement: What was measured until now.
        stored: What it is compared with.
        policy: Says how many processes there may be.
        differences: Machine keys that differ.
    """
    more = policy.analyses.more(len(measurement.samples))
    if not more or stored is None or unfit(measurement, stored, policy=policy, differences=differences):
        return 0
    verdict = LATENCY.judge(measurement, stored, policy=policy)
    if verdict.outcome is not Outcome.REGRESSED and _took_more(measurement, stored, policy=policy):
        return more
    if verdict.code in OPEN:
        return more
    if verdict.outcome not in (Outcome.HELD, Outcome.INCONCLUSIVE) or measurement.out_of_memory:
        return 0
    _, interval = LATENCY.expected(measurement, stored, policy=policy)
    if verdict.code == NOISY:
        return more if interval.basis == "processes" else 0
    change = abs(math.log(measurement.latency_s / interval.center))
    edges = (math.log(interval.ratio), math.log(max(interval.ratio, 1 + policy.latency_effect)))
    moves = reach(LATENCY.before(stored), measurement.medians_s, confidence=STILL_MOVES)
    return more if any(abs(change - edge) < moves for edge in edges) else 0


def _took_more(measurement: Measurement, stored: StoredCase, *, policy: Policy) -> bool:
    """Whether all processes took more memory than before, and are so few that all may have drawn a large workspace."""
    if measurement.out_of_memory:
        return False
    found = [peak.judge(measurement, stored, policy=policy) for peak in PEAKS.values()]
    few = len(measurement.samples) < 2 * policy.processes
    return any(one.code == DRAWN or (few and one.outcome is Outcome.REGRESSED) for one in found if one is not None)
