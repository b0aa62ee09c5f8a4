"""Planned analyses at growing data: their error rates add up to the whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sdperf.core.stats.interim import InterimAnalyses

EXPONENTS = st.sampled_from([1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("first", "most", "counts"),
    [(3, 12, (3, 6, 12)), (3, 10, (3, 6, 10)), (1, 4, (1, 2, 4)), (5, 5, (5,)), (5, 0, (5,)), (0, 0, (1,))],
)
def test_looks_double_up_to_the_most(first, most, counts):
    assert InterimAnalyses.doubling(first, most).counts == counts


@given(st.integers(1, 20), st.integers(1, 100), EXPONENTS)
def test_all_shares_together_are_the_whole_rate(first, most, exponent):
    analyses = InterimAnalyses.doubling(first, most, exponent=exponent)
    assert sum(analyses.share(count) for count in analyses.counts) == pytest.approx(1)


@given(st.integers(1, 20), st.integers(1, 100))
def test_whoever_takes_what_is_missing_comes_to_every_look(first, most):
    analyses, count, seen = InterimAnalyses.doubling(first, most), 0, []
    while more := analyses.more(count):
        count += more
        seen.append(count)
    assert tuple(seen) == analyses.counts
    assert analyses.last == count


def test_a_high_exponent_leaves_most_for_the_last_look():
    assert [InterimAnalyses((3, 6, 12), 2.0).share(count) for count in (3, 6, 12)] == [1 / 16, 3 / 16, 12 / 16]
    assert [InterimAnalyses((3, 6, 12)).share(count) for count in (3, 6, 12)] == [1 / 4, 1 / 4, 1 / 2]


@pytest.mark.parametrize(("count", "like"), [(1, 3), (4, 3), (11, 6), (30, 12)])
def test_a_count_that_was_not_planned_counts_as_the_look_before_it(count, like):
    analyses = InterimAnalyses((3, 6, 12))
    assert analyses.share(count) == analyses.share(like)
