"""What is said of the stages of a whole request that became slower or faster."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_values import case, measurement, session, stored

from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.judging.verdict import judge
from pytest_sdperf.checks.pipelines.judging.stages import stages_of
from pytest_sdperf.core.values.outcomes import Outcome

PIPELINE = case(component="pipeline")


def with_stages(of, *requests):
    """Return a measurement, or a session, whose processes watched a request: seconds of each call, by stage."""
    several = requests if len(requests) > 1 else requests * len(of.samples)
    pairs = zip(of.samples, several, strict=True)
    samples = tuple(dataclasses.replace(one, facts={**one.facts, "stages_s": stages}) for one, stages in pairs)
    replace = msgspec.structs.replace if isinstance(of, msgspec.Struct) else dataclasses.replace
    return replace(of, samples=samples)


def request(*, encoder=0.001, unet=0.002, steps=3, decoder=0.002, between=0.001):
    return {"text_encoder": [encoder] * 2, "unet": [unet] * steps, "vae_decoder": [decoder], "between": [between]}


def told(now, *before):
    verdict = judge(now, stored(*before, of=PIPELINE), policy=Policy())[0]
    return verdict.outcome, verdict.details


def slower(*times_ms):
    return measurement(*(times_ms or (16, 16, 16.1)), case=PIPELINE, calls=3)


BEFORE = with_stages(session(calls=3), request())


def test_the_stage_that_takes_longer_is_named_and_the_others_are_as_before():
    assert told(with_stages(slower(), request(decoder=0.008)), BEFORE) == (
        Outcome.REGRESSED,
        (
            (
                "in one watched request vae_decoder 2.00 ms -> 8.00 ms; as before: text_encoder, unet, "
                "scheduler and guidance"
            ),
        ),
    )


def test_several_stages_are_named_the_largest_change_first_and_more_calls_too():
    assert told(with_stages(slower(), request(unet=0.0025, steps=5, between=0.003)), BEFORE) == (
        Outcome.REGRESSED,
        (
            (
                "in one watched request unet 6.00 ms -> 12.5 ms (5 calls, before 3), scheduler and guidance 1.00 ms -> "
                "3.00 ms; as before: text_encoder, vae_decoder"
            ),
        ),
    )


def test_a_stage_that_is_new_and_all_of_them_slower():
    twice = {name: [2.5 * one for one in calls] for name, calls in request().items()}
    assert told(with_stages(slower(), {**twice, "text_encoder_2": [0.005]}), BEFORE)[1] == (
        (
            "in one watched request unet 6.00 ms -> 15.0 ms, text_encoder_2 none -> 5.00 ms, text_encoder 2.00 ms -> "
            "5.00 ms, vae_decoder 2.00 ms -> 5.00 ms; as before: scheduler and guidance"
        ),
    )


def test_what_became_faster_is_named_too():
    assert told(with_stages(slower(5, 5, 5.1), request(unet=0.0005)), BEFORE) == (
        Outcome.IMPROVED,
        (
            (
                "in one watched request unet 6.00 ms -> 1.50 ms; as before: text_encoder, vae_decoder, "
                "scheduler and guidance"
            ),
        ),
    )


def test_where_nobody_watched_nothing_is_said():
    assert told(with_stages(slower(), request(decoder=0.008)), session(calls=3)) == (Outcome.REGRESSED, ())
    assert told(slower(), BEFORE) == (Outcome.REGRESSED, ())


def test_watched_requests_that_became_faster_do_not_explain_a_latency_that_became_slower():
    assert told(with_stages(slower(), request(unet=0.001)), BEFORE) == (Outcome.REGRESSED, ())


def test_a_request_that_held_needs_no_explanation():
    held = with_stages(measurement(case=PIPELINE, calls=3), request(decoder=0.008))
    assert told(held, BEFORE) == (Outcome.HELD, ())


def test_of_several_processes_the_middle_one_counts():
    measured = with_stages(measurement(case=PIPELINE, calls=3), *(request(unet=unet) for unet in (0.002, 0.9, 0.003)))
    unet = stages_of(measured.samples)["unet"]
    assert (unet.calls, unet.call_s) == (3, 0.003)
    assert unet.whole_s == pytest.approx(0.009)


times = st.lists(st.floats(1e-6, 10), min_size=1, max_size=4)
requests = st.dictionaries(st.sampled_from(["text_encoder", "unet", "vae_decoder", "between"]), times, min_size=1)


@given(requests, requests)
def test_whatever_the_stages_are_each_is_named_once(now, before):
    outcome, lines = told(with_stages(slower(), now), with_stages(session(calls=3), before))
    assert outcome is Outcome.REGRESSED
    for line in lines:
        blamed, _, rest = line.partition("; as before: ")
        names = [name for name in (*rest.split(", "), *blamed.split(" ")) if name in {"unet", "vae_decoder"}]
        assert sorted(names) == sorted({"unet", "vae_decoder"} & {*now, *before})
