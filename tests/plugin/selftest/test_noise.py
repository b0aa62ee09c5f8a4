"""The noise that was measured is the noise that is drawn."""

from __future__ import annotations

import itertools
import math
import random
import statistics

import pytest

from pytest_sdperf.plugin.selftest.noise import MeasuredNoise, ModelNoise, measured_noise


def drawn(noise, *, sessions, count):
    draw = random.Random(5)
    return [list(itertools.islice(noise.session(draw), count)) for _ in range(sessions)]


def test_the_numbers_of_a_model_are_found_again_in_what_it_draws():
    found = measured_noise(drawn(ModelNoise(day=0.02, process=0.01, drift=0.0, bad=0.0), sessions=60, count=40))
    assert found.process == pytest.approx(0.01, rel=0.05)
    assert found.day == pytest.approx(0.02, rel=0.2)
    assert found.sessions == 60
    assert len(found.residuals) == 2400


def test_an_even_drift_is_no_spread_of_processes():
    steady = [0.01 * math.exp(0.001 * place) for place in range(48)]
    found = measured_noise([steady])
    assert found.process == pytest.approx(0, abs=1e-9)
    assert found.drifts == (pytest.approx(0.024),)


def test_one_session_cannot_show_how_sessions_differ():
    assert measured_noise([[0.01, 0.0101, 0.0099]]).day == 0


def test_what_is_fitted_to_few_processes_is_not_taken_for_their_quiet():
    sessions = drawn(ModelNoise(day=0.0, process=0.01, drift=0.0, bad=0.0), sessions=400, count=4)
    assert measured_noise(sessions).process == pytest.approx(0.01, rel=0.1)


def test_heavy_tails_are_drawn_as_they_were_measured():
    noise = MeasuredNoise(day=0.0, sessions=1, drifts=(0.0,), residuals=(0.0,) * 9 + (0.5,))
    times = list(itertools.islice(noise.session(random.Random(1)), 4000))
    assert statistics.fmean(time > 0.025 for time in times) == pytest.approx(0.1, abs=0.02)


def test_of_two_processes_nothing_can_be_said():
    with pytest.raises(ValueError) as raised:
        measured_noise([[0.01, 0.02]])
    assert str(raised.value) == "no session has three processes"
