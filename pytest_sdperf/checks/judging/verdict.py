"""`judge()`: what a measurement means against what is stored. Pure, and it fails closed."""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType
from typing import Literal

from pytest_sdperf.baselines.stored import StoredCase
from pytest_sdperf.checks.fusions.graph import judge_graphs
from pytest_sdperf.checks.judging.fitness import Differences, unfit
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.pipelines.judging.metrics import metrics_of
from pytest_sdperf.core.values import Measurement
from pytest_sdperf.core.values.outcomes import Outcome, Verdict

Delivery = Literal["pass", "skip", "fail"]


def judge(
    measurement: Measurement,
    stored: StoredCase | None,
    *,
    policy: Policy,
    differences: Differences = MappingProxyType({}),
) -> tuple[Verdict, ...]:
    """Judge every metric of a measurement against its stored case.

    Args:
        measurement: What was measured. A case without an engine is a build: only its graph is judged.
        stored: What is stored under the same key; None if nothing is.
        policy: How strictly.
        differences: Machine keys in which the stored machine differs from this one (`health.differing_keys`).

    Returns:
        One verdict per metric, and of `counts` per graph; a metric that the case cannot have (no graph, no memory
        reading on this CPU, nothing built in this run) has none. One INVALID verdict with the metric `measurement` when
        nothing about it can be judged. Never empty.
    """
    problem = unfit(measurement, stored, policy=policy, differences=differences)
    if problem is not None:
        return (problem,)
    verdicts: list[Verdict | None] = []
    if measurement.case.engine:
        verdicts += [metric.judge(measurement, stored, policy=policy) for metric in metrics_of(measurement)]
    if not measurement.out_of_memory or measurement.counts:
        verdicts += judge_graphs(measurement, stored, policy=policy)
    given = tuple(verdict for verdict in verdicts if verdict is not None)
    sentence = f"Nothing was measured for the case {measurement.case.key!r}."
    return given or (Verdict(Outcome.INVALID, "nothing-measured", sentence, "measurement"),)


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """Return the worst outcome; INVALID when there is none, because nothing was judged."""
    return max(outcomes, key=lambda outcome: outcome.rank, default=Outcome.INVALID)


def delivery(verdicts: Iterable[Verdict], *, policy: Policy) -> Delivery:
    """Return what becomes of the test that these verdicts belong to."""
    outcomes = {verdict.outcome for verdict in verdicts}
    failing = {Outcome.FAILED, Outcome.REGRESSED, Outcome.INVALID}
    if policy.fail_on_new:
        failing.add(Outcome.NEW)
    if policy.fail_on_inconclusive:
        failing.add(Outcome.INCONCLUSIVE)
    if policy.fail_on_not_measured:
        failing.add(Outcome.NOT_MEASURED)
    if not outcomes or outcomes & failing:
        return "fail"
    return "skip" if outcomes & {Outcome.INCONCLUSIVE, Outcome.NOT_MEASURED} else "pass"


def exit_status(outcomes: Iterable[Outcome], *, policy: Policy, other_failures: bool = False) -> int:
    """Return the exit status that outcomes ask for.

    Args:
        outcomes: Of every verdict of the run.
        policy: Says whether INCONCLUSIVE, NOT MEASURED and NEW fail.
        other_failures: Whether a test failed for another reason than a verdict.

    Returns:
        1 for FAILED, REGRESSED or an ordinary failure, else 10 for INVALID, 11 for INCONCLUSIVE or NOT MEASURED and 12
        for a missing baseline where these fail, else 0.
    """
    seen = set(outcomes)
    if other_failures or any(outcome.wrong for outcome in seen):
        return 1
    if Outcome.INVALID in seen:
        return 10
    if Outcome.INCONCLUSIVE in seen and policy.fail_on_inconclusive:
        return 11
    if Outcome.NOT_MEASURED in seen and policy.fail_on_not_measured:
        return 11
    return 12 if Outcome.NEW in seen and policy.fail_on_new else 0
