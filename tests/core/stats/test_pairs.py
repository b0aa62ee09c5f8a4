"""The statistics of an A/B, without any process."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sdperf.core.stats.pairs import PATTERNS, analyses_of, compare, finding

TIMES = st.floats(1e-4, 1e2)
SIX = [1.00, 1.01, 0.99, 1.02, 0.98, 1.00]


def judged(a, b, *, effect=0.02, alpha=0.005, beta=0.025):
    return finding(compare(a, b), effect=effect, alpha=alpha, beta=beta)


@pytest.mark.parametrize(
    ("most", "counts"),
    [
        (12, (2, 4, 6, 12)),
        (6, (2, 4, 6)),
        (5, (2, 4)),
        (3, (2,)),
        (1, (2,)),
        (15, (2, 4, 6, 12, 14)),
        (40, (2, 4, 6, 12, 24, 40)),
    ],
)
def test_the_looks_of_pairs(most, counts):
    assert analyses_of(most).counts == counts


def test_of_six_pairs_the_spread_is_that_of_the_pairs():
    from scipy import stats

    b = [1.1 * value for value in (1.00, 1.03, 0.98, 1.02, 0.99, 1.00)]
    found = compare(SIX, b)
    logs = [math.log(y / x) for x, y in zip(SIX, b, strict=True)]
    interval = stats.ttest_1samp(logs, 0).confidence_interval(0.95)
    assert found.ends(0.975) == pytest.approx((math.exp(interval.low), math.exp(interval.high)))
    assert found.degrees == 5
    assert found.permutation_p == pytest.approx(1 / 64)


def test_of_fewer_pairs_the_spread_is_that_of_the_sides():
    from scipy import stats

    a, b = [1.00, 1.01, 0.99], [1.10, 1.12, 1.11]
    found = compare(a, b)
    interval = stats.ttest_ind([*map(math.log, b)], [*map(math.log, a)]).confidence_interval(0.95)
    assert found.ends(0.975) == pytest.approx((math.exp(interval.low), math.exp(interval.high)))
    assert found.degrees == 4


def test_of_one_pair_nothing_is_certain():
    found = compare([1.0], [5.0])
    assert (found.degrees, found.ends(0.5)) == (0, (0.0, math.inf))
    assert judged([1.0], [5.0]) == "open"
    assert judged([1.0], [1.0]) == "open"


def test_pairs_are_whole():
    with pytest.raises(ValueError, match="shorter"):
        compare([1.0, 1.0], [1.0])


@pytest.mark.parametrize(
    ("factor", "result"), [(1.1, "slower"), (1 / 1.1, "faster"), (1.0, "same"), (1.018, "open"), (1.05, "slower")]
)
def test_findings_of_noisy_pairs(factor, result):
    noise = (1.002, 0.998, 1.001, 0.999, 1.003, 0.997)
    steady = [1.0] * 6
    assert judged(steady, [factor * value for value in noise]) == result


def test_equal_sides_are_the_same_once_the_effect_is_ruled_out():
    assert judged([1.0, 1.001], [1.001, 1.0]) == "same"
    assert judged([1.0, 1.1], [1.1, 1.0]) == "open"


def test_a_certain_change_below_the_effect_is_none():
    assert judged([1.0] * 6, [1.0101, 1.01, 1.0099, 1.01, 1.0101, 1.01]) == "same"


def test_one_pair_that_points_the_other_way_needs_more_pairs():
    b = [1.3, 1.3, 1.3, 1.3, 1.3, 0.999]
    assert compare([1.0] * 6, b).ends(0.99)[0] > 1
    assert judged([1.0] * 6, b, alpha=0.01) == "open"
    assert judged([1.0] * 12, [1.3] * 11 + [0.999], alpha=0.01) == "slower"


def test_many_pairs_are_judged_by_patterns_that_are_drawn_and_always_the_same():
    one, two = (compare([1.0] * 48, [1.0, 1.02] * 24) for _ in range(2))
    assert one.permutation_p == two.permutation_p == 1 / (PATTERNS + 1)
    assert judged([1.0] * 48, [1.02, 1.03] * 24, alpha=1e-9) == "slower"


@given(st.lists(st.tuples(TIMES, TIMES), min_size=2, max_size=8), st.floats(1e-3, 1e3))
def test_swapping_sides_turns_the_ratio_over_and_the_unit_does_not_matter(pairs, scale):
    a, b = [x for x, _ in pairs], [y for _, y in pairs]
    there, back = compare(a, b), compare([scale * y for y in b], [scale * x for x in a])
    assert there.log == pytest.approx(-back.log, rel=1e-6, abs=1e-9)
    assert there.error == pytest.approx(back.error, rel=1e-6, abs=1e-9)
    turned = {"slower": "faster", "faster": "slower", "same": "same", "open": "open"}
    if there.error > 1e-6:
        assert judged(b, a) == turned[judged(a, b)]


@given(st.lists(TIMES, min_size=1, max_size=6), st.floats(-0.3, 0.3))
def test_an_even_drift_weighs_on_both_sides_alike(level, slope):
    count, order = 2 * len(level), (0, 1, 1, 0)
    sides = ([], [])
    for place in range(2 * count):
        sides[order[place % 4]].append(math.exp(slope * place))
    assert compare(*sides).log == pytest.approx(0, abs=1e-9)
