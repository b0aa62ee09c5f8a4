"""Counted rates and their intervals."""

from __future__ import annotations

import pytest

from pytest_sdperf.plugin.selftest.rates import Rate


def test_nothing_in_two_hundred_is_less_than_two_percent():
    rate = Rate(0, 200)
    assert rate.share == 0
    assert rate.interval == (0.0, pytest.approx(0.01828, abs=1e-5))


def test_all_of_seventeen():
    assert Rate(17, 17).interval == (pytest.approx(0.025 ** (1 / 17)), 1.0)


def test_without_a_trial_the_rate_may_be_anything():
    assert (Rate(0, 0).share, Rate(0, 0).interval) == (0.0, (0.0, 1.0))
