"""When a self-test has not passed, and what it then says."""

from __future__ import annotations

import pytest

from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.plugin.selftest.findings import GOALS, seen_from, shortfalls, shown_from
from pytest_sdperf.plugin.selftest.limits import InForce
from pytest_sdperf.plugin.selftest.rates import needed
from pytest_sdperf.plugin.selftest.records import RuleCounts

GPU, CPU = Policy(), Policy(on_cpu=True)
QUIET_PAIRS = RuleCounts("pairs", 0.02, 0.0, 30, 0, 200)


def told(*rows, policy=GPU):
    return list(shortfalls(rows, InForce(policy, policy)))


def test_nothing_is_said_where_all_is_as_it_should_be():
    assert (
        told(QUIET_PAIRS, RuleCounts("pairs", 0.02, 0.03, 20, 20, 150), RuleCounts("stored-2", 0.02, 0.05, 12, 12, 108))
        == []
    )


def test_a_false_alarm_is_never_passed_over():
    assert told(RuleCounts("stored-5", 0.02, 0.0, 1, 1, 18), QUIET_PAIRS) == [
        "1 false alarm in 1 comparison of one build with itself (5 stored sessions, changes from 2 % on)."
    ]


def test_a_goal_that_is_surely_missed():
    [sentence] = told(QUIET_PAIRS, RuleCounts("pairs", 0.02, 0.03, 20, 11, 300))
    assert sentence == (
        "A slowdown of 3 % was found in 11 of 20 comparisons (A/B in pairs): with 95 % confidence in 76.9 % of all at "
        "most, and 99 % is the goal."
    )


@pytest.mark.parametrize(
    "row",
    [
        RuleCounts("pairs", 0.02, 0.03, 20, 19, 200),  # 99.9 % are possible
        RuleCounts("pairs", 0.02, 0.02, 20, 0, 400),  # nobody promised that
        RuleCounts("stored-2", 0.02, 0.05, 3, 2, 40),
    ],
)
def test_what_may_be_chance_is_not_held_against_it(row):
    assert told(QUIET_PAIRS, row) == []


def test_on_a_cpu_an_alarm_counts_at_the_limit_that_is_in_force_and_no_goal_is_set():
    tried = RuleCounts("pairs", 0.02, 0.0, 30, 3, 600)
    assert told(tried, RuleCounts("pairs", 0.30, 0.03, 20, 0, 80), policy=CPU) == []
    assert told(RuleCounts("pairs", 0.30, 0.0, 200, 2, 800), policy=CPU) == [
        "2 false alarms in 200 comparisons of one build with itself (A/B in pairs, changes from 30 % on)."
    ]


def rows(**found):
    return [RuleCounts("pairs", 0.02, float(f"0.{name[1:]}"), 10, count, 40) for name, count in found.items()]


def test_the_smallest_slowdown_from_which_on_all_were_found():
    assert seen_from(rows(_02=3, _03=10, _05=10, _10=10), 0.99).effect == 0.03
    assert seen_from(rows(_02=10, _03=9, _05=10, _10=10), 0.99).effect == 0.05
    assert seen_from(rows(_02=10, _03=10, _05=10, _10=9), 0.99) is None
    assert seen_from([RuleCounts("pairs", 0.02, 0.0, 10, 10, 40)], 0.5) is None


@pytest.mark.parametrize("goal", [goal for _, goal in GOALS.values()])
def test_a_goal_is_shown_by_the_lower_end_of_the_interval(goal):
    enough = needed(goal)
    many, few = (RuleCounts("pairs", 0.02, 0.03, count, count, 40) for count in (enough, enough - 1))
    assert few.rate.interval[0] < goal <= many.rate.interval[0]
    assert shown_from([many], goal) == many
    assert shown_from([few], goal) is None
    larger, missed = RuleCounts("pairs", 0.02, 0.05, 3, 3, 40), RuleCounts("pairs", 0.02, 0.05, 3, 2, 40)
    assert shown_from([many, larger], goal) == many  # few comparisons of a larger one take nothing away
    assert shown_from([many, missed], goal) is None
