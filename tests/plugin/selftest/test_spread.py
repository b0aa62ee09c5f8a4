"""On a GPU the smallest effect is never under the spread that a self-test measured: drawn archives, whole sentences."""

from __future__ import annotations

import dataclasses
import itertools
import math

import msgspec
import pytest
from sample_values import measurement, session, stored
from selftest_scenes import GPU_CASE, QUIET, Noise, drawn_case, drawn_run

from pytest_sdperf.checks.ab.pairs import judge_pairs
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.judging.verdict import judge
from pytest_sdperf.core.stats.pairs import Pairs
from pytest_sdperf.core.units import seconds
from pytest_sdperf.plugin.selftest.spread import RunSpread, spread_by, with_spread

GPU = Policy(max_processes=12)
NOISY, DAYS = Noise(process=0.03), Noise(day=0.03, process=0.001)
TEXT = "in its self-test of 2026-11-01, one in 20 of {} of one build with itself differed more"


def shown(*runs, policy=GPU, case=GPU_CASE, pairs=False):
    return with_spread(policy, case, [drawn_case(*runs)], pairs=pairs)


def alternating(share, *, turns):
    """A run whose groups of processes (sessions of three, or A and B of two pairs) are apart by a share in turns."""
    groups = itertools.cycle([(1.0, 1.0, 1.0), (1 + share,) * 3] if not turns else [(1.0, 1 + share, 1 + share, 1.0)])
    run = drawn_run(count=60)
    times = tuple(time for group in itertools.islice(groups, 60 // (4 if turns else 3)) for time in group)
    return type(run)(date="2026-11-01T10:00Z", suite="0.1.0", medians_s={"0": times})


@pytest.mark.parametrize(("pairs", "count"), [(False, 10), (True, 15)])
def test_one_comparison_in_twenty_exceeds_it(pairs, count):
    found = spread_by(drawn_case(alternating(0.05, turns=pairs)), processes=3, pairs=pairs)
    assert found == RunSpread(pytest.approx(0.05), TEXT.format(f"{count} comparisons"))


def test_a_quiet_gpu_keeps_what_was_asked_for():
    assert shown(drawn_run(QUIET)) == GPU
    assert shown(drawn_run(QUIET), pairs=True) == GPU


def test_a_noisy_one_does_not():
    policy = shown(*(drawn_run(NOISY, seed=seed) for seed in (1, 2, 3)))
    # Medians of three normal times spread by 0.67 of theirs, two of them are sqrt(2) times that apart, and 1.96 times
    # that is what one in twenty exceeds.
    assert math.log1p(policy.min_effect) == pytest.approx(1.96 * math.sqrt(2) * 0.67 * 0.03, rel=0.35)
    assert (policy.asked_effect, policy.latency_effect) == (0.02, policy.min_effect)
    assert shown(drawn_run(NOISY, count=20)) == GPU  # three comparisons tell nothing


def test_days_count_where_there_are_several():
    runs = [drawn_run(DAYS, seed=seed) for seed in (1, 2, 3)]
    assert shown(runs[0]) == GPU
    assert shown(*runs).min_effect > 0.02
    assert shown(*runs, pairs=True) == GPU  # both sides of a pair have the same day
    other = [msgspec.structs.replace(run, builds={"unet": str(number)}) for number, run in enumerate(runs)]
    assert shown(*other) == GPU


def test_a_wider_effect_that_was_asked_for_stays():
    wide = dataclasses.replace(GPU, min_effect=0.5)
    assert shown(drawn_run(NOISY), policy=wide) == wide


def test_on_a_cpu_the_limit_is_that_of_every_cpu():
    cpu = Policy(on_cpu=True)
    assert shown(drawn_run(NOISY), policy=cpu) == cpu
    assert (cpu.latency_effect, cpu.why_small_passes) == (0.3, "on a CPU only effects above 30 % fail")


def test_the_self_test_of_another_engine_says_nothing():
    assert shown(drawn_run(NOISY), case=dataclasses.replace(GPU_CASE, engine="torch")) == GPU


def test_the_widest_of_its_kind_speaks_for_a_case_without_one_of_its_own():
    tests = [
        drawn_case(alternating(share, turns=False), case=dataclasses.replace(GPU_CASE, model=model))
        for model, share in (("sd15", 0.03), ("sdxl", 0.05))
    ]
    effects = [
        with_spread(GPU, dataclasses.replace(GPU_CASE, model=model), tests, pairs=False).min_effect
        for model in ("sd15", "sdxl", "sd21")
    ]
    assert effects == [pytest.approx(0.03), pytest.approx(0.05), pytest.approx(0.05)]


# ------------------------------------------------------------------------------------------------ what verdicts say

WIDER = dataclasses.replace(GPU, min_effect=0.05, asked_effect=0.02, spread="its self-test says so")
SAID = "; on this GPU a change counts from 5 % on, and not from 2 %: its self-test says so"
ONE = "by the spread of 6 processes; 1 stored session cannot show how days differ"


@pytest.mark.parametrize(
    ("ms", "code", "compared"),
    [
        (10.0, "latency-inside-interval", "is equal to its baseline of 10.0 ms (held up to 10.5 ms {})"),
        (10.3, "latency-inside-interval", "is 3.0 % above its baseline of 10.0 ms (held up to 10.5 ms {})"),
        (13.0, "latency-above-interval", "is 30 % above its baseline of 10.0 ms (held up to 10.5 ms {})"),
        (9.7, "latency-inside-interval", "is 3.0 % below its baseline of 10.0 ms (held up to 10.5 ms {})"),
    ],
)
def test_a_latency(ms, code, compared):
    (latency, *_) = judge(measurement(ms, ms, ms), stored(session(10, 10, 10)), policy=WIDER)
    said = SAID if ms != 10 else ""
    assert latency.code == code
    assert latency.sentence == f"UNet latency {seconds(ms / 1000)} {compared.format(ONE)}{said}."


SIX = (10.0, 10.1, 9.9, 10.1, 9.9, 10.0)
INTERVAL = "95 % interval {0} to {0}, 6 pairs, permutation p"


@pytest.mark.parametrize(
    ("factor", "code", "told"),
    [
        (1.0, "pairs-same", f"10.0 ms is equal to A's 10.0 ms, no change of 5 % ({INTERVAL.format('0.0 %')} 1)"),
        (
            1.03,
            "pairs-same",
            f"10.3 ms is 3.0 % above A's 10.0 ms, no change of 5 % ({INTERVAL.format('+3.0 %')} 0.016){SAID}",
        ),
        (1.2, "pairs-slower", f"12.0 ms is 20 % above A's 10.0 ms ({INTERVAL.format('+20 %')} 0.016){SAID}"),
    ],
)
def test_pairs(factor, code, told):
    b = measurement(*(factor * time for time in SIX))
    verdict, *_ = judge_pairs(Pairs(measurement(*SIX), b), policy=WIDER)
    assert (verdict.code, verdict.sentence) == (code, f"UNet latency of B {told}.")
