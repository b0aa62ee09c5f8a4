"""Whether more processes are worth their time."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest
from sample_values import failed, measurement, session, stored, took

from pytest_sdperf.checks.judging.escalation import more_processes
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.judging.verdict import judge
from pytest_sdperf.core.values.outcomes import Outcome

GPU = Policy(max_processes=12)
CPU = Policy(max_processes=12, on_cpu=True)
# Five sessions that differ by half a percent: held up to 2.5 % at the last analysis, and to 4.7 % at the first.
DAYS = stored(*(session(*[ms] * 3) for ms in (10, 10.05, 9.95, 10.05, 9.95)))
ONE = stored(session(9.9, 10, 10.1))
NOISY = (8.0, 10.0, 12.5)


def more(measured, before=DAYS, policy=GPU, **differences):
    return more_processes(measured, before, policy=policy, differences=differences)


@pytest.mark.parametrize(
    ("measured", "before", "policy", "missing"),
    [
        # clear: inside, outside, and nothing to compare with
        (measurement(10, 10, 10.01), DAYS, GPU, 0),
        (measurement(13, 13, 13), DAYS, GPU, 0),
        (measurement(8, 8, 8), DAYS, GPU, 0),
        (measurement(13, 13, 13), None, GPU, 0),
        (failed("oom", "no room"), DAYS, GPU, 0),
        (measurement(13, 13, 13), stored(session(failure="oom")), GPU, 0),
        (failed("crash", "it died"), DAYS, GPU, 0),
        # near the limit, or beyond it and not certain yet
        (measurement(10.2, 10.22, 10.3), DAYS, GPU, 3),
        (measurement(10.3, 10.3, 10.3), DAYS, GPU, 3),
        (measurement(10.3, 10.3, 10.3, 10.3, 10.3, 10.3), DAYS, GPU, 6),
        (measurement(*[10.3] * 12), DAYS, GPU, 0),
        (measurement(*[10.3] * 3), DAYS, Policy(), 0),
        # noise: more processes tell more about processes, and nothing about days
        (measurement(*NOISY), ONE, GPU, 3),
        (measurement(*NOISY), stored(session(*NOISY), session(15, 15, 15), session(8, 8, 8)), GPU, 0),
        (measurement(10), stored(session(10)), Policy(processes=1, max_processes=4), 1),
        # on a CPU: between the interval and 30 % nothing changes, near 30 % it may
        (measurement(12, 12, 12), DAYS, CPU, 0),
        (measurement(12.5, 12.9, 13.6), DAYS, CPU, 3),
    ],
)
def test_how_many_more_processes_are_started(measured, before, policy, missing):
    assert more(measured, before, policy) == missing


@pytest.mark.parametrize(
    ("now", "missing"),
    [
        ((2697, 2689, 2693), 0),
        ((3721, 3711, 2697), 0),
        ((3721, 3711, 3713), 3),
        ((3721, 3711, 3713, 3711, 3711, 3711), 0),
        ((2500, 2500, 2500), 0),
    ],
)
def test_more_memory_is_believed_when_twice_the_processes_took_it(now, missing):
    before = stored(*(msgspec.structs.replace(one, samples=took(2689, 2697, 2693)) for one in DAYS.sessions))
    measured = dataclasses.replace(measurement(), samples=took(*now))
    assert more(measured, before) == missing


@pytest.mark.parametrize(("processes", "missing"), [(3, 3), (6, 6), (12, 0)])
def test_more_memory_that_some_of_the_baseline_took_is_measured_until_it_is_no_chance(processes, missing):
    before = stored(*(msgspec.structs.replace(one, samples=took(3711, 2697, 2693)) for one in DAYS.sessions[:1]))
    measured = dataclasses.replace(measurement(), samples=took(*[3711] * processes))
    assert more(measured, before) == missing


def test_another_machine_is_not_measured_longer():
    assert more(measurement(10.3, 10.3, 10.3), cores=(2, 4)) == 0


def test_a_measurement_that_ends_too_early_is_inconclusive():
    (verdict, *_) = judge(measurement(10.3, 10.3, 10.3), DAYS, policy=GPU)
    assert (verdict.outcome, verdict.code) == (Outcome.INCONCLUSIVE, "latency-open")
    assert verdict.sentence == (
        "UNet latency 10.3 ms is 3.0 % above its baseline of 10.0 ms (held up to 10.2 ms by 5 stored sessions), but "
        "after 3 processes that is not certain yet."
    )
    (verdict, *_) = judge(measurement(*[10.3] * 12), DAYS, policy=GPU)
    assert (verdict.outcome, verdict.code) == (Outcome.REGRESSED, "latency-above-interval")
