"""False alarms and power, by drawing times and judging them with the code that judges: docs/verdicts.md has more."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.plugin.selftest.comparisons import PAIRS, JudgingRule

FILE = Path(__file__).parents[3] / "benchmarks" / "verdicts.py"
SPEC = importlib.util.spec_from_file_location("simulated_verdicts", FILE)
verdicts = sys.modules[SPEC.name] = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(verdicts)

# The noise that docs/verdicts.md states, and that of an H200.
USUAL, QUIET = (0.01, 0.008, 0.02, 0.0), (0.002, 0.0028, 0.003, 0.0)
BUSY = (0.03, 0.05, 0.05, 0.05)
POLICY = Policy(max_processes=12)


def simulated(rule, noise, *, effect, trials, policy):
    simulation = verdicts.Simulation(verdicts.Noise(*noise), policy, trials=trials, seed=3)
    seen, processes = simulation.outcomes(rule, effect)
    return {outcome.value: count / trials for outcome, count in seen.items()}, processes


def stored(noise, *, effect, sessions, trials=200, policy=POLICY):
    rule = JudgingRule(f"stored-{sessions}", "", sessions)
    return simulated(rule, noise, effect=effect, trials=trials, policy=policy)


def paired(noise, *, effect, trials=400, policy=POLICY):
    return simulated(PAIRS, noise, effect=effect, trials=trials, policy=policy)


# 200 trials of a rate of 1 % give 8 or fewer alarms in 99.9 % of all simulations; each has two sides.
@pytest.mark.parametrize("sessions", [1, 2, 3, 10])
@pytest.mark.parametrize("noise", [USUAL, QUIET], ids=["usual", "quiet"])
def test_looking_again_at_an_unchanged_build_cries_wolf_as_rarely_as_promised(noise, sessions):
    found, processes = stored(noise, effect=0.0, sessions=sessions)
    assert found.get("REGRESSED", 0) <= 8 / 200
    assert found.get("IMPROVED", 0) <= 8 / 200
    assert processes < 5


@pytest.mark.parametrize(
    ("noise", "effect", "sessions", "least"),
    [(USUAL, 0.10, 10, 0.98), (USUAL, 0.05, 10, 0.75), (QUIET, 0.03, 10, 0.98), (QUIET, 0.05, 3, 0.9)],
)
def test_stored_sessions_find_a_change(noise, effect, sessions, least):
    found, _ = stored(noise, effect=effect, sessions=sessions, trials=100)
    assert found["REGRESSED"] >= least


@pytest.mark.parametrize("noise", [USUAL, QUIET, BUSY], ids=["usual", "quiet", "busy"])
def test_pairs_of_equal_sides_cry_wolf_as_rarely_as_promised(noise):
    found, _ = paired(noise, effect=0.0, trials=400)
    assert found.get("REGRESSED", 0) <= 11 / 400  # as above
    assert found.get("IMPROVED", 0) <= 11 / 400


def test_the_plan_of_looks_keeps_the_rate_that_looking_without_one_exceeds(monkeypatch):
    """With an effect that is nearly nothing, so that t alone decides."""
    policy = Policy(max_processes=24, confidence=0.95, min_effect=1e-4)
    planned, _ = paired(USUAL, effect=0.0, trials=800, policy=policy)
    monkeypatch.setattr("pytest_sdperf.core.stats.interim.InterimAnalyses.share", lambda self, count: 1.0)
    careless, _ = paired(USUAL, effect=0.0, trials=800, policy=policy)
    assert planned["REGRESSED"] <= 0.05 + 0.023  # three standard errors
    assert careless["REGRESSED"] >= 0.08


@pytest.mark.parametrize(
    ("noise", "effect", "least", "most"),
    [(USUAL, 0.03, 0.97, 14), (USUAL, 0.10, 0.99, 9), (QUIET, 0.03, 0.99, 9), (BUSY, 0.30, 0.95, 20)],
)
def test_pairs_find_a_change_and_a_clear_one_costs_little(noise, effect, least, most):
    found, processes = paired(noise, effect=effect, trials=150)
    assert found["REGRESSED"] >= least
    assert processes <= most


def test_pairs_seldom_call_the_smallest_effect_none():
    found, _ = paired(USUAL, effect=0.02, trials=400)
    assert found.get("HELD", 0) <= 0.05 + 0.035
