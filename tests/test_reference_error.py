"""The rule behind every limit, in plain numbers."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sdperf.core.reference_error import HALF_UNIT, limit, reference_error, relative

SIZES = st.floats(0.0, 1e3)


@given(SIZES, st.floats(1e-6, 1e3))
def test_a_distance_is_a_share_of_the_reference(gap, norm):
    assert relative(gap, norm) == gap / norm


@pytest.mark.parametrize(("gap", "norm"), [(math.nan, 1.0), (1.0, math.nan), (math.inf, 1.0), (1.0, math.inf), (1, 0)])
def test_what_nobody_can_tell_is_infinitely_far_away(gap, norm):
    assert relative(gap, norm) == math.inf


@given(st.lists(SIZES, min_size=1), st.sampled_from(sorted(HALF_UNIT)))
def test_the_largest_error_counts_and_rounding_always(distances, dtype):
    own = reference_error(*distances, dtype=dtype)
    assert own == max([HALF_UNIT[dtype], *distances])
    assert limit(own) == 2 * own


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_one_rounding_that_is_not_finite_leaves_no_reference_error_wherever_it_stands(bad):
    for distances in itertools.permutations([1e-3, 2e-3, bad]):
        assert limit(reference_error(*distances, dtype="float16")) == math.inf
