from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sdperf.core.stats.bounds import Interval, pooled_spread, predict, reach, t_quantile

TIMES = st.floats(1e-5, 1e3)
SESSIONS = st.lists(st.lists(TIMES, min_size=1, max_size=5), min_size=1, max_size=6)


def bound(stored, new, **options):
    return predict(stored, new, **{"min_effect": 0.02, "confidence": 0.99, **options})


def test_t_quantile_is_that_of_the_printed_tables():
    assert t_quantile(0.99, 4) == pytest.approx(3.747, abs=5e-4)
    assert t_quantile(0.99, 9) == pytest.approx(2.821, abs=5e-4)


def test_spread_of_processes_is_pooled_over_sessions_and_not_widened_by_their_distance():
    near, degrees = pooled_spread([[1.0, 1.1], [1.0, 1.1]])
    far, _ = pooled_spread([[1.0, 1.1], [10.0, 11.0]])
    assert degrees == 2
    assert near == pytest.approx(far)
    assert near == pytest.approx(math.log(1.1) / math.sqrt(2))


def test_one_process_each_leaves_nothing_to_estimate_from():
    spread, degrees = pooled_spread([[1.0], [2.0]])
    assert degrees == 0
    assert math.isnan(spread)
    interval = bound([[0.01]], [0.01])
    assert (interval.basis, interval.ratio) == ("nothing", math.inf)


def test_processes_that_differ_beyond_all_measure_leave_an_interval_without_ends():
    interval = bound([[0.01, 0.03]], [0.01], confidence=1 - 1e-6)
    assert (interval.basis, interval.ratio, interval.low) == ("processes", math.inf, 0)


def test_three_sessions_use_the_spread_between_them():
    interval = bound([[1.0], [1.1], [1.2]], [1.0])
    logs = [math.log(value) for value in (1.0, 1.1, 1.2)]
    mean = sum(logs) / 3
    deviation = math.sqrt(sum((value - mean) ** 2 for value in logs) / 2)
    assert interval.basis == "sessions"
    assert interval.center == pytest.approx(math.exp(mean))
    assert math.log(interval.ratio) == pytest.approx(t_quantile(0.99, 2) * deviation * math.sqrt(4 / 3))


def test_the_new_session_does_not_move_the_bound_of_three_stored_ones():
    sessions = [[1.0, 1.0], [1.01, 1.0], [1.02, 1.0]]
    assert bound(sessions, [1.0, 1.0]) == bound(sessions, [5.0, 0.1])


def test_two_sessions_use_the_spread_of_processes():
    interval = bound([[1.0, 1.1, 1.2], [1.0, 1.1, 1.2]], [1.0, 1.1, 1.2])
    spread, degrees = pooled_spread([[1.0, 1.1, 1.2]] * 3)
    expected = t_quantile(0.99, degrees) * spread * math.sqrt(math.pi / 2) * math.sqrt(1 / 3 + (2 / 3) / 4)
    assert (interval.basis, degrees, interval.sessions) == ("processes", 6, 2)
    assert math.log(interval.ratio) == pytest.approx(expected + math.log(1.02))


def test_a_session_of_fewer_processes_may_lie_further_away():
    steady = [[1.0, 1.01, 1.02, 1.01], [1.01, 1.02, 1.03, 1.02], [1.02, 1.03, 1.04, 1.03]]
    options = {"min_effect": 1e-6}
    assert bound(steady, [1.0, 1.01], **options).ratio > bound(steady, [1.0, 1.01, 1.0, 1.01], **options).ratio
    assert bound(steady, [1.0, 1.01] * 2, **options).ratio == bound(steady, [1.0, 1.01] * 9, **options).ratio


def test_more_processes_move_a_center_less_and_less():
    assert reach([[1.0]], [1.0], confidence=0.95) == math.inf
    few, many = ([1.0, 1.1] * count for count in (1, 8))
    assert reach([few], few, confidence=0.95) > 2 * reach([few], many, confidence=0.95)


@pytest.mark.parametrize("count", [1, 2, 3, 10])
def test_identical_samples_still_leave_the_minimum_effect(count):
    interval = bound([[0.01] * 3] * count, [0.01] * 3, min_effect=0.05)
    assert interval.high == pytest.approx(0.0105)
    assert interval.low == pytest.approx(0.01 / 1.05)


def test_ends_of_an_interval():
    interval = Interval(2.0, 1.25, 0.1, "sessions", 4)
    assert (interval.low, interval.high) == (1.6, 2.5)


@given(SESSIONS, st.lists(TIMES, min_size=1, max_size=5), st.floats(0.001, 0.5))
def test_an_interval_holds_its_center_and_is_never_narrower_than_the_minimum_effect(stored, new, effect):
    interval = bound(stored, new, min_effect=effect)
    assert interval.low < interval.center < interval.high
    assert interval.ratio >= (1 + effect) * (1 - 1e-12)


@given(SESSIONS, st.lists(TIMES, min_size=1, max_size=5), st.floats(0.01, 100.0))
def test_the_unit_of_time_does_not_matter(stored, new, scale):
    plain = bound(stored, new)
    scaled = bound([[value * scale for value in session] for session in stored], [value * scale for value in new])
    assert scaled.basis == plain.basis
    assert scaled.center == pytest.approx(plain.center * scale, rel=1e-9)
    if plain.basis != "nothing":
        assert math.log(scaled.ratio) == pytest.approx(math.log(plain.ratio), rel=1e-6)


@given(st.lists(TIMES, min_size=2, max_size=5), st.lists(TIMES, min_size=2, max_size=5))
def test_more_confidence_never_narrows(stored, new):
    assert bound([stored], new, confidence=0.999).ratio >= bound([stored], new, confidence=0.9).ratio


@pytest.mark.parametrize("sessions", [1, 3, 8])
def test_equal_builds_exceed_the_bound_about_as_often_as_promised(sessions):
    # Days do not differ here, so that the rule for few sessions, which cannot know about days, can keep its promise.
    draw, trials, alarms = random.Random(7), 1500, 0
    for _ in range(trials):
        runs = [[math.exp(draw.gauss(0, 0.03)) for _ in range(3)] for _ in range(sessions + 1)]
        interval = bound(runs[:-1], runs[-1], min_effect=1e-6)
        alarms += sorted(runs[-1])[1] > interval.high
    assert alarms / trials < 0.02
