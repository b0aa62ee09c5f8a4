"""Each planted mistake is red for its reason, and the healthy engine beside it passes every check."""

from __future__ import annotations

import pytest

from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.replay.batch import mix
from pytest_sdperf.checks.replay.judging import judge_replay
from pytest_sdperf.checks.replay.repeats import repeat
from pytest_sdperf.checks.replay.resolutions import resize, sizes_of
from pytest_sdperf.core.values.outcomes import Outcome

SIZES = [(64, 64), (128, 64), (64, 128)]
POLICY = Policy(on_cpu=True)


def checked(check, runner):
    if check == "repeats":
        return repeat(runner, repeats=2)
    if check == "batch":
        return mix(runner)
    return resize(runner, sizes_of(runner, SIZES))


def judged(check, runner):
    verdict = judge_replay(checked(check, runner), runner.case, policy=POLICY)
    return verdict.outcome, verdict.code


@pytest.mark.parametrize(
    ("check", "code"),
    [("repeats", "answers-repeated"), ("batch", "images-apart"), ("resolutions", "resolutions-served")],
)
def test_a_healthy_engine_passes(case_on, check, code):
    assert judged(check, case_on("healthy")) == (Outcome.PASSED, code)


@pytest.mark.parametrize(
    ("engine", "check", "code"),
    [
        ("own-buffer", "repeats", "outputs-overwritten"),
        ("stale", "repeats", "answer-stale"),
        ("remembered-by-size", "repeats", "answer-stale"),
        ("prompt-kept", "repeats", "answer-wrong"),
        ("state-kept", "repeats", "state-kept"),
        ("noisy", "repeats", "not-repeated"),
        ("noisy-in-bits", "repeats", "bits-differ"),
        ("other-in-every-process", "repeats", "processes-differ"),
        ("shifted", "batch", "images-mixed"),
        ("attention-across-the-batch", "batch", "images-mixed"),
        ("norm-over-the-batch", "batch", "images-mixed"),
        ("remembered-by-size", "resolutions", "answer-stale"),
        ("size-kept", "resolutions", "resolution-wrong"),
        ("hoarder", "resolutions", "memory-grows"),
        ("rebuilds", "resolutions", "compiled-again"),
    ],
)
def test_a_planted_mistake_is_named(case_on, engine, check, code):
    # Beside all that the tests before it have left in this process, what one engine keeps is little.
    own = {"in_process": False} if code == "memory-grows" else {}
    assert judged(check, case_on(engine, **own)) == (Outcome.FAILED, code)


@pytest.mark.slow
def test_a_healthy_engine_passes_in_processes_of_its_own(case_on):
    assert judged("repeats", case_on("healthy", model="tiny", in_process=False)) == (Outcome.PASSED, "answers-repeated")


def request_of(case_on, engine):
    return case_on(engine, component="pipeline", steps=2, scheduler="ddim")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "outcome", "code"),
    [
        ("healthy", Outcome.PASSED, "answers-repeated"),
        ("own-buffer", Outcome.FAILED, "outputs-overwritten"),
        ("text-kept", Outcome.FAILED, "answer-wrong"),
    ],
)
def test_whole_requests(case_on, engine, outcome, code):
    runner = request_of(case_on, engine)
    verdict = judge_replay(repeat(runner, repeats=2), runner.case, policy=POLICY)
    assert (verdict.outcome, verdict.code) == (outcome, code)


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "code"), [("healthy", "images-apart"), ("shifted", "images-mixed")])
def test_images_of_a_request_are_what_they_are_alone(case_on, engine, code):
    runner = request_of(case_on, engine)
    assert judge_replay(mix(runner), runner.case, policy=POLICY).code == code
