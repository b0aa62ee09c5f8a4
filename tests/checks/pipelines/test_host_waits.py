"""How often the host waits for its GPU, and what is said of it."""

from __future__ import annotations

import dataclasses

import pytest
from sample_values import case, kernels, measurement, sample_with, session, stored

from pytest_sdperf.baselines.stored import Session
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.judging.verdict import judge
from pytest_sdperf.checks.pipelines.judging.host_waits import HostWaits
from pytest_sdperf.core.values.outcomes import Outcome

PIPELINE = case(component="pipeline")
OPENING = "Pipeline makes the host wait for its GPU:"


def seen(*waits, calls=50, copies=0):
    """Return samples of processes whose host waited so often in a request of so many UNet calls."""
    return tuple(
        sample_with(host_waits={"synchronizations": count, "copies": copies, "unet_calls": calls}) for count in waits
    )


def now(*waits, **fields):
    return dataclasses.replace(measurement(case=PIPELINE), samples=seen(*waits, **fields))


def before(*waits, date="2026-11-20T10:00Z", changed=(), **fields):
    return Session(date=date, samples=seen(*waits, **fields), changed=changed, subject={"torch": "2.12.0"})


def told(measured, *sessions):
    known = stored(*sessions, of=PIPELINE) if sessions else None
    verdict = HostWaits().judge(measured, known, policy=Policy())
    return verdict and (verdict.outcome, verdict.code, verdict.sentence, verdict.obtained, verdict.expected)


def test_without_a_baseline_it_is_said():
    assert told(now(100, 100, 100, copies=50)) == (
        Outcome.NEW,
        "no-baseline",
        (
            f"{OPENING} 100 synchronizations and 50 copies to the host in 50 UNet calls, "
            "3.00 per call; that has no baseline yet."
        ),
        3.0,
        None,
    )


def test_more_than_before_is_red():
    measured = dataclasses.replace(now(100, 100, 100, copies=50), subject={"torch": "2.13.0"})
    assert told(measured, before(0, 0, 0)) == (
        Outcome.REGRESSED,
        "more-waits",
        (
            f"{OPENING} 100 synchronizations and 50 copies to the host in 50 UNet calls, "
            "3.00 per call; its baseline: no synchronization and no copy to the host in 50 UNet calls; since then: "
            "torch 2.12.0 -> 2.13.0."
        ),
        3.0,
        0.0,
    )


def test_fewer_is_better():
    measured = dataclasses.replace(now(1, 1, 1), subject={"torch": "2.12.0"})
    assert told(measured, before(50, 50, 51))[:3] == (
        Outcome.IMPROVED,
        "fewer-waits",
        (
            f"{OPENING} 1 synchronization and 0 copies to the host in 50 UNet calls, 0.02 "
            "per call; its baseline: 50 synchronizations and 0 copies to the host in 50 UNet calls, 1.00 per call."
        ),
    )


@pytest.mark.parametrize("measured", [now(50, 50, 50), now(51, 52, 49), now(50, 99, 99)])
def test_unless_every_process_lies_beyond_every_stored_one_it_held(measured):
    assert told(measured, before(50, 50, 51))[:2] == (Outcome.HELD, "waits-as-before")


def test_as_many_per_call_of_more_calls_held():
    assert told(now(102, calls=51), before(100))[0] is Outcome.HELD


def test_older_sessions_of_another_level_do_not_count():
    newer = before(50, date="2026-11-21T10:00Z", changed=("host-waits",))
    assert told(now(50), before(0), newer)[0] is Outcome.HELD


def test_a_baseline_that_does_not_know_it_is_no_baseline_of_it():
    assert told(now(50), session())[:2] == (Outcome.NEW, "no-baseline")


def test_where_nobody_saw_it_the_kernels_say_so():
    assert told(measurement(case=PIPELINE), before(50)) is None
    assert told(dataclasses.replace(now(50), samples=(*seen(50), sample_with())), before(50)) is None


def test_a_component_alone_waits_in_its_call():
    few, none = (HostWaits().extract(one) for one in (*seen(1, copies=2, calls=0), *seen(0, calls=0)))
    assert few.words == "1 synchronization and 2 copies to the host in a call"
    assert none.words == "no synchronization and no copy to the host in a call"


def test_it_is_judged_with_everything_else():
    facts = {"kernels": kernels(gemm=3), "host_waits": {"synchronizations": 0, "copies": 0, "unet_calls": 0}}
    measured = dataclasses.replace(measurement(), samples=(sample_with(**facts),) * 3)
    found = {verdict.metric: verdict for verdict in judge(measured, None, policy=Policy())}
    assert found["host-waits"].sentence == (
        "UNet makes the host wait for its GPU: no synchronization and no copy to the host in a call; that has no "
        "baseline yet."
    )
