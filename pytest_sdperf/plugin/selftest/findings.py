"""What a self-test must not show, and what it has to."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from pytest_sdperf.core.units import plural, share
from pytest_sdperf.plugin.selftest.comparisons import PAIRS, RULES, JudgingRule
from pytest_sdperf.plugin.selftest.limits import InForce
from pytest_sdperf.plugin.selftest.records import RuleCounts

# Slowdown, and the share of comparisons in which it has to be found: in pairs, and by a baseline. Of a GPU only.
GOALS = {True: (0.03, 0.99), False: (0.05, 0.95)}


def goal_of(rule: JudgingRule) -> tuple[float, float]:
    """Return a slowdown and the share of comparisons in which a rule has to find it on a GPU."""
    return GOALS[rule == PAIRS]


def shortfalls(rows: Sequence[RuleCounts], in_force: InForce) -> Iterator[str]:
    """Yield a sentence for every rule with a false alarm, and for every goal that is surely not reached.

    Args:
        rows: Of all runs of the self-test.
        in_force: How users' runs are judged until now: other limits are only tried.
    """
    for rule in RULES:
        found, (effect, goal) = in_force.rows(rule, rows), goal_of(rule)
        same, slowed = found.get(0.0), found.get(effect)
        if same is not None and same.found:
            yield (
                f"{plural(same.found, 'false alarm')} in {plural(same.comparisons, 'comparison')} of one build with "
                f"itself ({rule.title}, changes from {share(same.limit)} on)."
            )
        if slowed is None or in_force.of(rule).on_cpu or slowed.rate.interval[1] >= goal:
            continue
        yield (
            f"A slowdown of {share(effect)} was found in {slowed.found} of {plural(slowed.comparisons, 'comparison')} "
            f"({rule.title}): with 95 % confidence in {share(slowed.rate.interval[1])} of all at most, and "
            f"{share(goal)} is the goal."
        )


def seen_from(rows: Iterable[RuleCounts], goal: float) -> RuleCounts | None:
    """Return the row of the smallest slowdown from which on all that were injected were found as often as `goal`.

    Args:
        rows: Of one rule and one limit.
        goal: Share of the comparisons.
    """
    return next(iter(reversed(_seen(rows, goal))), None)


def shown_from(rows: Iterable[RuleCounts], goal: float) -> RuleCounts | None:
    """Return the same, of those of which it is sure: the lower end of the interval reaches the goal."""
    return next((row for row in reversed(_seen(rows, goal)) if row.rate.interval[0] >= goal), None)


def _seen(rows: Iterable[RuleCounts], goal: float) -> list[RuleCounts]:
    """Return slowdowns that were found as often as a goal, largest first, until one was not."""
    largest_first = sorted((row for row in rows if row.effect), key=lambda row: -row.effect)
    return list(itertools.takewhile(lambda row: row.rate.share >= goal, largest_first))
