"""Verdicts on replays: every branch, with its whole text."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest
from sample_values import case

from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.replay.judging import judge_replay
from pytest_sdperf.core.files.strict_json import convert
from pytest_sdperf.core.values import to_json
from pytest_sdperf.core.values.outcomes import Outcome
from pytest_sdperf.core.values.replays import AnswerSpread, CallAgreement, Replay

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


@pytest.mark.parametrize("replay", [REPEATS, BATCH, dataclasses.replace(SIZES, peaks_bytes={"host": (1, 2)})])
def test_a_replay_survives_json(replay):
    assert convert(json.loads(json.dumps(to_json(replay))), Replay) == replay
