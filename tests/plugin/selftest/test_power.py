"""Simulated rates: by the same comparisons as those that are measured."""

from __future__ import annotations

import random

import pytest
from selftest_scenes import GPU_CASE, QUIET

from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.core.values.outcomes import Outcome
from pytest_sdperf.plugin.selftest.comparisons import PAIRS, RULES
from pytest_sdperf.plugin.selftest.noise import ModelNoise
from pytest_sdperf.plugin.selftest.power import Simulation

POLICY = Policy(max_processes=12)
STORED_5 = next(rule for rule in RULES if rule.name == "stored-5")


def simulation(noise=QUIET, *, trials=60):
    return Simulation(noise, GPU_CASE, POLICY, trials=trials)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_quiet_machine_has_no_alarm_and_every_large_slowdown_is_found(rule):
    assert simulation().rate(rule, 0.0).found == 0
    assert simulation().rate(rule, 0.10).share == 1


def test_the_smallest_detectable_slowdown_grows_with_the_noise():
    quiet, noisy = (simulation(ModelNoise(0.0, spread, 0.0, 0.0)).detectable(PAIRS, 0.95) for spread in (0.002, 0.02))
    assert quiet is not None
    assert noisy is not None
    assert 0.02 <= quiet <= 0.03
    assert noisy > 0.04


def test_where_noise_hides_everything_nothing_is_detectable():
    assert simulation(ModelNoise(0.0, 0.5, 0.0, 0.0), trials=20).detectable(PAIRS, 0.99) is None


def test_the_same_question_has_the_same_answer():
    assert simulation().outcomes(STORED_5, 0.03) == simulation().outcomes(STORED_5, 0.03)


def test_stored_sessions_have_levels_of_their_own():
    """Days that differ by 5 % and nothing else: with few of them such a change is no alarm."""
    days = ModelNoise(day=0.05, process=0.0001, drift=0.0, bad=0.0)
    draw = random.Random(1)
    outcomes = [simulation(days).comparison(STORED_5, 0.0, draw).outcome for _ in range(100)]
    assert outcomes.count(Outcome.REGRESSED) <= 5
    assert outcomes.count(Outcome.INCONCLUSIVE) > 50  # the limit is wider than a verdict may have
