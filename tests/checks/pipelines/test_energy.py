"""What a call takes of energy: what is said of it, and how it is judged against baselines that may not know it."""

from __future__ import annotations

import dataclasses

import pytest
from sample_values import case, measurement, sample_with, session, stored

from pytest_sdperf.acceptance.sessions import Provenance, session_of
from pytest_sdperf.baselines.stored import Session
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.judging.verdict import judge
from pytest_sdperf.checks.pipelines.judging.energy import Energy
from pytest_sdperf.core.values.outcomes import Outcome

GPU = Policy(on_cpu=False)
SILENT = "the driver tells no energy counter of NVIDIA T4"


def facts(joules, *, watts=600.0, **more):
    return {"energy": {"calls": 50, "seconds": 2.0, "watts": watts, "joules_per_call": joules, **more}}


def took(*joules, watts=600.0, **more):
    """Return samples of processes whose calls took so many joules; None for one that cannot tell."""
    return tuple(
        sample_with(energy_not_available=SILENT) if one is None else sample_with(**facts(one, watts=watts, **more))
        for one in joules
    )


def now(*joules, component="unet", **more):
    calls = {"calls": 51} if component == "pipeline" else {}
    one = measurement(case=case(component=component), counts={}, **calls)
    samples = (dataclasses.replace(sample, unet_calls=51 if calls else 0) for sample in took(*joules, **more))
    return dataclasses.replace(one, samples=tuple(samples))


def before(*joules, date="2026-11-20T10:00Z", **more):
    return Session(date=date, samples=took(*joules, **more), subject={"torch": "2.12.0"})


def told(measured, *sessions):
    found = judge(measured, stored(*sessions, of=measured.case) if sessions else None, policy=GPU)
    return next(((one.outcome, one.code, one.sentence) for one in found if one.metric == "energy"), None)


def test_a_component_takes_it_in_a_call_and_a_request_for_its_images():
    one, many = took(12.34)[0], took(1640.0, watts=641.0, images=4)[0]
    assert Energy().extract(one).words == "12.3 J per call at 600 W"
    assert Energy().extract(many).words == "1,640 J per request, 410 J per image, at 641 W"
    assert Energy().extract(sample_with(energy={"calls": 50, "seconds": 2.0})) is None
    assert Energy().extract(sample_with(energy_not_available=SILENT)) is None


def test_without_a_baseline_of_the_case_it_is_new():
    assert told(now(12.0, 12.1, 12.2)) == (
        Outcome.NEW,
        "no-baseline",
        "UNet energy: 12.1 J per call at 600 W; that has no baseline yet.",
    )


def test_a_baseline_that_is_older_than_it_is_no_news():
    older = dataclasses.replace(measurement(source="device"), samples=(sample_with(),) * 3)
    assert told(now(12.0, 12.1, 12.2), session(source="device")) is None
    verdicts = judge(now(12.0, 12.1, 12.2), stored(session(source="device"), of=older.case), policy=GPU)
    assert Outcome.NEW not in [verdict.outcome for verdict in verdicts]


def test_it_is_judged_by_the_sessions_that_have_it():
    measured = dataclasses.replace(now(14.9, 15.0, 15.1, watts=750.0), subject={"torch": "2.13.0"})
    assert told(measured, session(source="device"), before(12.0, 12.1, 12.2)) == (
        Outcome.REGRESSED,
        "more-energy",
        (
            "UNet energy: 15.0 J per call at 750 W is 24 % above its baseline of 12.1 J per call at 600 W (held up to "
            "13.1 J by the spread of 6 processes; 1 stored session cannot show how days differ); since then: torch "
            "2.12.0 -> 2.13.0."
        ),
    )


@pytest.mark.parametrize(
    ("joules", "outcome", "code"),
    [
        ((12.0, 12.1, 12.2), Outcome.HELD, "energy-as-before"),
        ((12.5, 12.6, 12.7), Outcome.HELD, "energy-as-before"),  # 4 %
        ((9.9, 10.0, 10.1), Outcome.IMPROVED, "less-energy"),
        ((8.0, 12.0, 16.0), Outcome.INCONCLUSIVE, "metric-too-noisy"),
    ],
)
def test_verdicts(joules, outcome, code):
    assert told(now(*joules), before(12.0, 12.1, 12.2))[:2] == (outcome, code)


def test_one_process_on_each_side_says_nothing():
    found = judge(now(15.0), stored(before(12.0)), policy=Policy(on_cpu=False, processes=1))
    assert next(one for one in found if one.metric == "energy").code == "metric-no-replicates"


def test_a_request_is_told_by_image_too():
    measured = now(1640.0, 1650.0, 1660.0, component="pipeline", watts=641.0, images=4)
    known = Session(date="2026-11-20T10:00Z", samples=measured.samples)
    assert told(measured, known)[2].startswith(
        "Pipeline energy: 1,650 J per request, 412 J per image, at 641 W is equal to its baseline of 1,650 J per "
        "request, 412 J per image, at 641 W (held up to "
    )


@pytest.mark.parametrize(
    ("joules", "sessions", "sentence"),
    [
        ((None,) * 3, (before(12.0, 12.1, 12.2),), f"its baseline has it: {SILENT}"),
        ((12.0, 12.1, None), (), f"other processes have it: {SILENT}"),
    ],
)
def test_where_the_card_no_longer_tells_it_nothing_is_passed_over(joules, sessions, sentence):
    assert told(now(*joules), *sessions) == (
        Outcome.INVALID,
        "metric-missing",
        f"UNet energy is missing from a process; {sentence}.",
    )


def test_results_of_an_older_version_do_not_say_why():
    silent = dataclasses.replace(now(12.0), samples=(sample_with(),) * 3)
    assert told(silent, before(12.0, 12.1, 12.2))[2] == ("UNet energy is missing from a process; its baseline has it.")


def test_where_nobody_can_tell_nothing_is_judged():
    assert told(now(None, None, None)) is None
    assert told(now(None, None, None), before(None, None, None)) is None


def test_a_regression_that_is_accepted_begins_a_level():
    measured, known = now(14.9, 15.0, 15.1), stored(before(12.0, 12.1, 12.2))
    verdicts = judge(measured, known, policy=GPU)
    origin = Provenance("t4", {}, "2026-11-21T10:00Z")
    accepted = session_of(measured, origin, verdicts=verdicts, reason="a newer card", stored=known, doubted=True)
    assert accepted.changed == ("energy",)
    assert told(measured, *known.sessions, accepted)[0] is Outcome.HELD
