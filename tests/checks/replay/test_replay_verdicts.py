"""Verdicts on replays and on resolutions in turns: every branch, with its whole text."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest
from sample_values import case

from pytest_sdperf.checks.ab.interleaving import judge_interleaving, more_pairs
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.replay.judging import judge_replay
from pytest_sdperf.core.files.strict_json import convert
from pytest_sdperf.core.values import Failure, to_json
from pytest_sdperf.core.values.outcomes import Outcome
from pytest_sdperf.core.values.replays import AnswerSpread, CallAgreement, Interleaving, Replay

CASE = case(component="unet")
POLICY = Policy(on_cpu=True)
AGAIN = (
    AnswerSpread("2 equal calls", 0.0, 2e-6, equal=True, output="out_sample"),
    AnswerSpread("the first again, after another", 0.0, 2e-6, equal=True, output="out_sample"),
    AnswerSpread("2 processes", 0.0, 2e-6, equal=True, output="out_sample"),
)
OTHER = CallAgreement("another prompt and seed", 1e-6, 1.1e-6, 2.2e-6, "out_sample[0, 1, 2, 3]")
REPEATS = Replay("repeats", "float32", "float64", exact=True, spreads=AGAIN, answers=(OTHER,))
BATCH = dataclasses.replace(
    REPEATS,
    check="batch",
    exact=False,
    spreads=(AnswerSpread("row 1 of 8, and alone", 1e-6, 2e-6, equal=False, output="out_sample"),),
    answers=(dataclasses.replace(OTHER, call="row 1 of 8"),),
)
SIZES = dataclasses.replace(
    REPEATS,
    check="resolutions",
    spreads=(AnswerSpread("512x512 again", 0.0, 2e-6, equal=True, output="out_sample"),),
    answers=(
        dataclasses.replace(OTHER, call="512x512"),
        dataclasses.replace(OTHER, call="512x512, other inputs"),
    ),
)


def apart(replay, number, **changes):
    spreads = list(replay.spreads)
    spreads[number] = dataclasses.replace(spreads[number], **{"equal": False, **changes})
    return dataclasses.replace(replay, spreads=tuple(spreads))


def answering(replay, **changes):
    return dataclasses.replace(replay, answers=(dataclasses.replace(replay.answers[0], **changes),))


@pytest.mark.parametrize(
    ("replay", "outcome", "text"),
    [
        (
            REPEATS,
            Outcome.PASSED,
            (
                "UNet answers are equal bit for bit: 2 equal calls, the first again, after another, 2 processes; the "
                "largest error against torch float64 is 1.00e-06 of at most 2.20e-06. [answers-repeated]"
            ),
        ),
        (
            BATCH,
            Outcome.PASSED,
            (
                "UNet answers are equal within 1.00e-06 (at most 2.00e-06 passes): row 1 of 8, and alone; the largest "
                "error against torch float64 is 1.00e-06 of at most 2.20e-06. [images-apart]"
            ),
        ),
        (
            SIZES,
            Outcome.PASSED,
            (
                "UNet answers are equal bit for bit: 512x512 again; the largest error against torch float64 is "
                "1.00e-06 of at most 2.20e-06. [resolutions-served]"
            ),
        ),
        (
            dataclasses.replace(REPEATS, overwritten=("out_sample",)),
            Outcome.FAILED,
            (
                "UNet outputs are written over by later calls: out_sample changed after it had been returned. The "
                "engine hands out its own buffer; it must hand out a copy. [outputs-overwritten]"
            ),
        ),
        (
            dataclasses.replace(REPEATS, indistinct=True),
            Outcome.INCONCLUSIVE,
            (
                "Torch itself gives the unet of sd15-thin the same answer to different inputs, so no right answer "
                "could be told from a wrong one. Take other weights with --sdperf-weights. [inputs-indistinct]"
            ),
        ),
        (
            answering(REPEATS, error=0.9, stale="the first prompt and seed"),
            Outcome.FAILED,
            (
                "UNet answers to another prompt and seed with its answer to the first prompt and seed: what is "
                "replayed does not read its inputs. [answer-stale]"
            ),
        ),
        (
            answering(REPEATS, error=0.9),
            Outcome.FAILED,
            (
                "UNet answer to another prompt and seed has a relative L2 error 9.00e-01 against torch float64; plain "
                "torch float32 has 1.10e-06, so at most 2.20e-06 passes. [answer-wrong]"
            ),
        ),
        (
            answering(SIZES, error=0.9),
            Outcome.FAILED,
            (
                "UNet answer to 512x512 has a relative L2 error 9.00e-01 against torch float64; plain torch float32 "
                "has 1.10e-06, so at most 2.20e-06 passes. [resolution-wrong]"
            ),
        ),
        (
            answering(BATCH, error=0.9),
            Outcome.FAILED,
            (
                "UNet, row 1 of 8 of a batch of different ones has a relative L2 error 9.00e-01 against torch float64 "
                "alone; plain torch float32 has 1.10e-06, so at most 2.20e-06 passes. [images-mixed]"
            ),
        ),
        (
            answering(REPEATS, error=math.inf, culprit="output 'out_sample' is missing"),
            Outcome.FAILED,
            "UNet answer to another prompt and seed is not comparable: output 'out_sample' is missing. [answer-wrong]",
        ),
        (
            answering(REPEATS, limit=math.inf),
            Outcome.FAILED,
            (
                "UNet answer to another prompt and seed cannot be judged: plain torch float32 is not finite there, so "
                "nothing can be called right. [no-reference-error]"
            ),
        ),
        (
            apart(REPEATS, 0, largest=1e-4),
            Outcome.FAILED,
            "UNet, 2 equal calls: out_sample differs by 1.00e-04 (at most 2.00e-06 passes). [not-repeated]",
        ),
        (
            apart(REPEATS, 1, largest=1e-4),
            Outcome.FAILED,
            (
                "UNet, the first again, after another: out_sample differs by 1.00e-04 (at most 2.00e-06 passes). "
                "Something of an earlier call is left in the engine. [state-kept]"
            ),
        ),
        (
            apart(REPEATS, 2, largest=1e-4),
            Outcome.FAILED,
            "UNet, 2 processes: out_sample differs by 1.00e-04 (at most 2.00e-06 passes). [processes-differ]",
        ),
        (
            apart(REPEATS, 0, largest=1e-7),
            Outcome.FAILED,
            (
                "UNet, 2 equal calls: out_sample differs by 1.00e-07 (at most 2.00e-06 passes), and ort-cpu promises "
                "equal bits for equal calls on this kind of device. [bits-differ]"
            ),
        ),
        (
            apart(dataclasses.replace(REPEATS, exact=False), 0, largest=1e-7),
            Outcome.PASSED,
            (
                "UNet answers are equal within 1.00e-07 (at most 2.00e-06 passes): 2 equal calls, the first again, "
                "after another, 2 processes; the largest error against torch float64 is 1.00e-06 of at most 2.20e-06. "
                "[answers-repeated]"
            ),
        ),
        (
            apart(REPEATS, 0, largest=math.inf),
            Outcome.FAILED,
            "UNet, 2 equal calls: out_sample is missing, has another shape or is not finite. [not-repeated]",
        ),
        (
            apart(REPEATS, 0, limit=math.inf),
            Outcome.FAILED,
            "UNet, 2 equal calls: nothing can be judged, because plain torch is not finite. [no-reference-error]",
        ),
        (
            apart(BATCH, 0, limit=math.inf),
            Outcome.FAILED,
            (
                "UNet, row 1 of 8, and alone: nothing can be judged, because plain torch is not finite. "
                "[no-reference-error]"
            ),
        ),
        (
            apart(BATCH, 0, largest=1e-4),
            Outcome.FAILED,
            (
                "UNet, row 1 of 8, and alone: out_sample differs by 1.00e-04 (at most 2.00e-06 passes). What an image "
                "becomes depends on the others of its batch. [images-mixed]"
            ),
        ),
        (
            dataclasses.replace(SIZES, prepared={"first": 1, "later": 2}),
            Outcome.FAILED,
            "UNet: ort-cpu compiled 2 graphs again for a resolution that it had served before. [compiled-again]",
        ),
        (
            dataclasses.replace(REPEATS, prepared={"first": 1, "later": 1}),
            Outcome.FAILED,
            "UNet: ort-cpu compiled 1 graph again for a call like one before. [compiled-again]",
        ),
        (
            dataclasses.replace(SIZES, prepared={"first": 2, "later": 0}),
            Outcome.PASSED,
            (
                "UNet: ort-cpu compiled 2 graphs for 1 resolution, each within a call, where one with open shapes "
                "would do (torch-compile:dynamic=on). [compiled-for-resolutions]"
            ),
        ),
        (
            dataclasses.replace(SIZES, peaks_bytes={"host": (10**9, 11 * 10**8, 14 * 10**8)}),
            Outcome.FAILED,
            (
                "UNet: memory (host) grows with every round through the resolutions, from 1,049 MB to 1,335 MB in the "
                "last one (changes up to 105 MB do not count). [memory-grows]"
            ),
        ),
    ],
)
def test_every_verdict_on_a_replay(replay, outcome, text):
    verdict = judge_replay(replay, CASE, policy=POLICY)
    assert (verdict.outcome, verdict.text) == (outcome, text)


def test_what_else_failed_is_in_the_details():
    both = answering(apart(REPEATS, 1, largest=1e-4), error=0.9)
    verdict = judge_replay(both, CASE, policy=POLICY)
    assert verdict.code == "state-kept"
    assert verdict.details == (
        (
            "UNet answer to another prompt and seed has a relative L2 error 9.00e-01 against torch float64; plain "
            "torch float32 has 1.10e-06, so at most 2.20e-06 passes."
        ),
    )


def test_memory_of_a_cache_that_is_filled_once_is_no_growth():
    filled = dataclasses.replace(SIZES, peaks_bytes={"host": (10**9, 14 * 10**8, 14 * 10**8)})
    assert judge_replay(filled, CASE, policy=POLICY).code == "resolutions-served"


def turns(factor, *, alone=(0.100, 0.101), **fields):
    other = {"768x768": tuple(2 * time for time in alone)}
    return Interleaving(
        alone_s={"512x512": alone, **other},
        turns_s={"512x512": tuple(factor * time for time in alone), **other},
        **fields,
    )


@pytest.mark.parametrize(
    ("found", "outcome", "text"),
    [
        (
            turns(3.0),
            Outcome.FAILED,
            (
                "UNet latency at 512x512 in turns 301 ms is 200 % above 100 ms alone (95 % interval +191 % to +209 %, "
                "2 pairs). [turns-slower]"
            ),
        ),
        (
            turns(1.0),
            Outcome.PASSED,
            (
                "UNet latency at 512x512 in turns 100 ms is equal to 100 ms alone, not slower by 30 % (95 % interval "
                "-3.0 % to +3.1 %, 2 pairs). [turns-same]"
            ),
        ),
        (
            turns(0.3),
            Outcome.PASSED,
            (
                "UNet latency at 768x768 in turns 201 ms is equal to 201 ms alone, not slower by 30 % (95 % interval "
                "-3.0 % to +3.1 %, 2 pairs). [turns-same]"
            ),
        ),
        (
            turns(1.2),
            Outcome.INCONCLUSIVE,
            (
                "UNet latency at 512x512 in turns 121 ms is 20 % above 100 ms alone (95 % interval +16 % to +24 %, "
                "2 pairs), but on a CPU only effects above 30 % fail. [turns-small-on-cpu]"
            ),
        ),
        (
            turns(1.1, alone=(0.1, 0.2)),
            Outcome.INCONCLUSIVE,
            (
                "UNet latency at 512x512 in turns 156 ms is 10 % above 141 ms alone (95 % interval -87 % to +806 %, "
                "2 pairs): neither a change of 30 % nor its absence is certain. [turns-too-noisy]"
            ),
        ),
        (
            turns(1.0, prepared={"first": 2, "later": 3}),
            Outcome.FAILED,
            (
                "UNet: ort-cpu compiled 3 graphs again in the timed calls, for resolutions that it had served before. "
                "[compiled-again]"
            ),
        ),
        (
            turns(1.0, health=("The GPU was slowed down while measuring: heat, 3 ms.",)),
            Outcome.INVALID,
            (
                "The machine was not fit to be measured: The GPU was slowed down while measuring: heat, 3 ms. "
                "[machine-not-fit]"
            ),
        ),
        (
            turns(0.0),
            Outcome.INVALID,
            "UNet latency was not taken at every resolution, or is not above zero. [latency-not-positive]",
        ),
        (
            turns(1.0, alone=()),
            Outcome.INVALID,
            "UNet latency was not taken at every resolution, or is not above zero. [latency-not-positive]",
        ),
    ],
)
def test_every_verdict_on_resolutions_in_turns(found, outcome, text):
    verdict = judge_interleaving(found, CASE, policy=POLICY)
    assert (verdict.outcome, dataclasses.replace(verdict, details=()).text) == (outcome, text)


def test_the_details_have_every_resolution():
    assert judge_interleaving(turns(3.0), CASE, policy=POLICY).details == (
        "512x512: 301 ms in turns, 100 ms alone (+191 % to +209 %)",
        "768x768: 201 ms in turns, 201 ms alone (-3.0 % to +3.1 %)",
    )


def test_more_pairs_are_asked_for_while_it_is_open():
    policy = dataclasses.replace(POLICY, max_pairs=12)
    assert more_pairs(turns(1.1, alone=(0.1, 0.2)), policy=policy) == 2
    assert more_pairs(turns(1.1, alone=(0.1, 0.2), prepared={"later": 1}), policy=policy) == 0
    assert more_pairs(turns(1.1, alone=(0.1, 0.2)), policy=POLICY) == 0


@pytest.mark.parametrize("replay", [REPEATS, BATCH, dataclasses.replace(SIZES, peaks_bytes={"host": (1, 2)})])
def test_a_replay_survives_json(replay):
    assert convert(json.loads(json.dumps(to_json(replay))), Replay) == replay


def test_times_in_turns_survive_json():
    found = turns(1.0, prepared={"first": 1, "later": 0})
    assert convert(json.loads(json.dumps(to_json(found))), Interleaving) == found


@pytest.mark.parametrize(
    ("failure", "outcome", "text"),
    [
        (
            Failure("crash", "the worker ended with exit status 3 and no answer", "first\nlast"),
            Outcome.INVALID,
            ("The worker ended with exit status 3 and no answer. Its last words:\nfirst\nlast [worker-crash]"),
        ),
        (
            Failure("oom", "CUDA out of memory."),
            Outcome.INCONCLUSIVE,
            "Memory ran out, so nothing was compared: CUDA out of memory. [out-of-memory]",
        ),
    ],
)
def test_turns_that_a_process_did_not_finish(failure, outcome, text):
    found = Interleaving(alone_s={}, turns_s={}, failure=failure)
    verdict = judge_interleaving(found, CASE, policy=POLICY)
    assert (verdict.outcome, verdict.metric, verdict.text) == (outcome, "interleaving", text)
    assert convert(json.loads(json.dumps(to_json(found))), Interleaving) == found
