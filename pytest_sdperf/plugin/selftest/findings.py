"""What a self-test must not show, and what it has to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.core.units import plural, share
from pytest_sdperf.plugin.selftest.comparisons import PAIRS, RULES, JudgingRule
from pytest_sdperf.plugin.selftest.records import RuleCounts

# Slowdown, and the share of comparisons in which it has to be found: in pairs, and by a baseline. Of a GPU only.
GOALS = {True: (0.03, 0.99), False: (0.05, 0.95)}


def goal_of(rule: JudgingRule) -> tuple[float, float]:
    """Return a slowdown and the share of comparisons in which a rule has to find it on a GPU."""
    return GOALS[rule == PAIRS]


def shortfalls(rows: Sequence[RuleCounts], *, policy: Policy) -> Iterator[str]:
    """Yield a sentence for every rule with a false alarm, and for every goal that is surely not reached.

    Args:
        rows: Of all runs of the self-test.
        policy: How they were judged.
    """
    for rule in RULES:
        found, (effect, goal) = {row.effect: row for row in rows if row.rule == rule.name}, goal_of(rule)
        same, slowed = found.get(0.0), found.get(effect)
        if same is not None and same.found:
            yield (
                f"{plural(same.found, 'false alarm')} in {plural(same.comparisons, 'comparison')} of one build with "
                f"itself ({rule.title}, changes from {share(same.limit)} on)."
            )
        if slowed is None or policy.on_cpu or slowed.rate.interval[1] >= goal:
            continue
        yield (
            f"A slowdown of {share(effect)} was found in {slowed.found} of {plural(slowed.comparisons, 'comparison')} "
            f"({rule.title}): with 95 % confidence in {share(slowed.rate.interval[1])} of all at most, and "
            f"{share(goal)} is the goal."
        )
