from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sdperf.checks.semantics.windows import mean_window, share_window


@pytest.mark.parametrize(
    ("right", "count", "low", "high"), [(12, 12, 7, 12), (11, 12, 5, 12), (100, 100, 95, 100), (95, 100, 84, 100)]
)
def test_the_window_of_a_share(right, count, low, high):
    assert [round(end * count) for end in share_window(right, count)] == [low, high]


@given(count=st.integers(1, 100), data=st.data())
def test_a_share_lies_in_its_own_window(count, data):
    right = data.draw(st.integers(0, count))
    low, high = share_window(right, count)
    assert 0 <= low <= right / count <= high <= 1


def test_another_draw_of_the_same_reference_lies_in_the_window():
    """The promise of the window: 99 of 100 further draws lie inside, whatever the true share is."""
    random = np.random.default_rng(0)
    for true in (0.6, 0.9, 0.97):
        first, second = random.binomial(100, true, size=(2, 2000))
        windows = {right: share_window(right, 100) for right in set(first.tolist())}
        inside = [
            windows[one][0] <= other / 100 <= windows[one][1] for one, other in zip(first.tolist(), second, strict=True)
        ]
        assert np.mean(inside) >= 0.985


def test_another_mean_lies_in_the_window_of_the_first():
    random = np.random.default_rng(0)
    first, second = random.normal(0.9, 0.04, size=(2, 2000, 12))
    inside = [
        low <= other <= high for (low, high), other in zip(map(mean_window, first), second.mean(axis=1), strict=True)
    ]
    assert 0.98 <= np.mean(inside) <= 0.998


def test_the_mean_of_one_value_has_no_window():
    assert mean_window([0.5]) == (-math.inf, math.inf)
