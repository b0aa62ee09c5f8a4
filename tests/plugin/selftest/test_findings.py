"""When a self-test has not passed, and what it then says."""

from __future__ import annotations

import pytest

from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.plugin.selftest.records import RuleCounts
from pytest_sdperf.plugin.selftest.table import shortfalls

GPU, CPU = Policy(), Policy(on_cpu=True)
QUIET_PAIRS = RuleCounts("pairs", 0.02, 0.0, 30, 0, 200)


def told(*rows, policy=GPU):
    return list(shortfalls(rows, policy=policy))


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


def test_on_a_cpu_an_alarm_counts_and_no_goal_is_set():
    assert told(RuleCounts("pairs", 0.30, 0.5, 20, 0, 80), policy=CPU) == []
    assert told(RuleCounts("pairs", 0.30, 0.0, 200, 2, 800), policy=CPU) == [
        "2 false alarms in 200 comparisons of one build with itself (A/B in pairs, changes from 30 % on)."
    ]
