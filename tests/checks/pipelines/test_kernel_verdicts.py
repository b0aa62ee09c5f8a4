"""Kernels per kind and partitions against what is stored: every branch, with its whole sentence."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_values import kernels, measurement, sample_with, session, stored

from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.pipelines.judging.kernels import Kernels
from pytest_sdperf.checks.pipelines.judging.partitions import Parts
from pytest_sdperf.core.values.outcomes import Outcome
from pytest_sdperf.tasks.sampling.kernels import KINDS

USUAL = {"attention_flash": 32, "convolution_nhwc": 98, "gemm": 184, "elementwise": 391, "memset": 100}  # 805


def now(*facts, **fields):
    return dataclasses.replace(measurement(), samples=tuple(sample_with(**one) for one in facts), **fields)


def before(*facts):
    samples = tuple(sample_with(**one) for one in facts)
    return stored(msgspec.structs.replace(session(), samples=samples))


def judged(obtained, known=None, **fields):
    obtained, known = ([{"kernels": kernels(**counts)} for counts in side or ()] for side in (obtained, known))
    verdict = Kernels().judge(now(*obtained, **fields), before(*known) if known else None, policy=Policy())
    return verdict.outcome, verdict.code, verdict.sentence


def test_without_a_baseline():
    expected = "UNet launches 805 kernels per call, which has no baseline yet."
    assert judged([USUAL] * 3) == (Outcome.NEW, "no-baseline", expected)


def test_as_before():
    expected = "UNet launches 805 kernels per call, as in its baseline."
    assert judged([USUAL] * 3, [USUAL] * 3) == (Outcome.HELD, "kernels-as-before", expected)


def test_an_attention_that_fell_apart_is_named():
    lost = {"attention_math": 32, **USUAL, "attention_flash": 0, "gemm": 248}
    assert judged([lost] * 3, [USUAL] * 3, subject={"onnxruntime": "1.32.0"}) == (
        Outcome.REGRESSED,
        "kernels-lost",
        (
            "UNet launches 869 kernels per call; its baseline 805: attention-flash 32 -> 0, attention-math 0 -> 32, "
            "gemm 184 -> 248; since then: onnxruntime 1.31.1 -> 1.32.0."
        ),
    )


@pytest.mark.parametrize(
    ("change", "outcome", "code"),
    [
        ({"attention_flash": 31}, Outcome.REGRESSED, "kernels-lost"),
        ({"attention_flash": 0, "attention_cudnn": 32}, Outcome.REGRESSED, "kernels-lost"),
        ({"convolution_nhwc": 0, "convolution": 98}, Outcome.REGRESSED, "kernels-lost"),
        ({"gemm": 0, "other": 184}, Outcome.REGRESSED, "kernels-lost"),
        ({"convolution_nhwc": 96, "convolution": 2}, Outcome.HELD, "kernels-as-before"),
        ({"elementwise": 400}, Outcome.HELD, "kernels-as-before"),
        ({"elementwise": 408}, Outcome.REGRESSED, "more-launches"),
        ({"elementwise": 380}, Outcome.HELD, "kernels-as-before"),
        ({"memset": 1}, Outcome.IMPROVED, "fewer-launches"),
        ({"memset": 0}, Outcome.IMPROVED, "fewer-launches"),
    ],
)
def test_changes(change, outcome, code):
    assert judged([{**USUAL, **change}] * 3, [USUAL] * 3)[:2] == (outcome, code)


def test_what_varies_from_process_to_process_is_no_change():
    wide = [{**USUAL, "elementwise": count} for count in (391, 420, 450)]
    assert judged(wide, [USUAL] * 3)[0] is Outcome.HELD
    assert judged([wide[2]] * 3, wide)[0] is Outcome.HELD
    assert judged([USUAL, USUAL, {**USUAL, "attention_flash": 0}], [USUAL] * 3)[0] is Outcome.HELD


def on_ordinary_cores(convolutions):
    return {
        "kernels": kernels(**USUAL),
        "kernels_without_tensor_cores": kernels(convolution_nhwc=convolutions),
        "gpu_busy_s": 8e-3,
        "gpu_busy_without_tensor_cores_s": convolutions * 1e-5,
    }


def test_products_that_lost_the_tensor_cores_are_a_loss_in_every_process():
    verdict = Kernels().judge(now(*[on_ordinary_cores(98)] * 3), before(*[on_ordinary_cores(0)] * 3), policy=Policy())
    assert (verdict.outcome, verdict.code) == (Outcome.REGRESSED, "tensor-cores-lost")
    assert verdict.sentence == (
        "UNet launches 805 kernels per call; its baseline 805: for 12.3 % of its time the GPU multiplies half "
        "precision without tensor cores, before 0 %."
    )


def test_products_that_lost_the_tensor_cores_are_told_beside_the_kinds_that_changed():
    facts = {**on_ordinary_cores(98), "kernels": kernels(**{**USUAL, "elementwise": 400})}
    verdict = Kernels().judge(now(facts), before(on_ordinary_cores(0)), policy=Policy())
    assert verdict.sentence == (
        "UNet launches 814 kernels per call; its baseline 805: for 12.3 % of its time the GPU multiplies half "
        "precision without tensor cores, before 0 %; elementwise 391 -> 400."
    )


@pytest.mark.parametrize(
    ("obtained", "known"),
    [
        ([98, 98, 98], [98, 98, 98]),
        ([0, 0, 0], [98, 98, 98]),
        ([98, 0, 98], [0, 0, 0]),
        ([98, 98, 98], [0, 98, 0]),
        ([16, 16, 16], [0, 0, 0]),
    ],
)
def test_products_without_tensor_cores_that_are_no_loss(obtained, known):
    sides = [[on_ordinary_cores(count) for count in side] for side in (obtained, known)]
    assert Kernels().judge(now(*sides[0]), before(*sides[1]), policy=Policy()).outcome is Outcome.HELD


def test_a_baseline_that_does_not_tell_of_tensor_cores_judges_nothing_about_them():
    older = {"kernels": kernels(**USUAL)}
    assert Kernels().judge(now(on_ordinary_cores(98)), before(older), policy=Policy()).outcome is Outcome.HELD


def test_kernels_that_nothing_can_tell():
    unseen = [{"kernels_not_available": "torch is missing"}] * 3
    assert Kernels().judge(now(*unseen), None, policy=Policy()) is None
    assert Kernels().judge(now({}), None, policy=Policy()) is None
    known = before({"kernels": kernels(**USUAL)})
    verdict = Kernels().judge(now(*unseen), known, policy=Policy())
    assert (verdict.outcome, verdict.code) == (Outcome.INVALID, "kernels-missing")
    assert verdict.sentence == "UNet kernels were not seen: torch is missing; its baseline has them."
    verdict = Kernels().judge(now({}), known, policy=Policy())
    assert verdict.sentence == "UNet kernels were not seen; its baseline has them."


@given(st.lists(st.dictionaries(st.sampled_from(KINDS), st.integers(1, 500), min_size=1), min_size=1, max_size=4))
def test_nothing_is_a_change_from_itself(counts):
    assert judged(counts, counts)[0] is Outcome.HELD


def parts_judged(measured, known):
    return Parts().judge(measured, known, policy=Policy())


def partitions(engines, cpu_nodes):
    return {"partitions": {"engines": engines, "cpu_nodes": cpu_nodes}}


@pytest.mark.parametrize(
    ("obtained", "known", "outcome", "code", "sentence"),
    [
        (
            (1, 0),
            None,
            Outcome.NEW,
            "no-baseline",
            "The UNet graph runs as 1 engine and 0 nodes on the CPU, which has no baseline yet.",
        ),
        (
            (1, 0),
            (1, 0),
            Outcome.HELD,
            "partitions-as-before",
            "The UNet graph runs as 1 engine and 0 nodes on the CPU, as in its baseline.",
        ),
        (
            (3, 2),
            (1, 0),
            Outcome.REGRESSED,
            "more-partitions",
            (
                "The UNet graph runs as 3 engines and 2 nodes on the CPU; in its baseline the UNet graph runs as "
                "1 engine and 0 nodes on the CPU."
            ),
        ),
        (
            (1, 2),
            (3, 0),
            Outcome.REGRESSED,
            "more-partitions",
            (
                "The UNet graph runs as 1 engine and 2 nodes on the CPU; in its baseline the UNet graph runs as "
                "3 engines and 0 nodes on the CPU."
            ),
        ),
        (
            (1, 0),
            (3, 2),
            Outcome.IMPROVED,
            "fewer-partitions",
            (
                "The UNet graph runs as 1 engine and 0 nodes on the CPU; in its baseline the UNet graph runs as "
                "3 engines and 2 nodes on the CPU."
            ),
        ),
    ],
)
def test_partitions(obtained, known, outcome, code, sentence):
    verdict = parts_judged(now(*[partitions(*obtained)] * 3), before(partitions(*known)) if known else None)
    assert (verdict.outcome, verdict.code, verdict.sentence) == (outcome, code, sentence)


WHOLE = "The UNet graph runs as 1 engine and 0 nodes on the CPU"
DECODER = "VAE decoder graph runs as 3 engines and 1 node on the CPU"


@pytest.mark.parametrize(
    ("obtained", "known", "outcome", "code", "sentence"),
    [
        (["unet"], ["unet", "vae_decoder"], Outcome.INVALID, "partitions-missing",
         "UNet partitions of the VAE decoder graph are not known; its baseline has them."),
        ([], ["unet", "vae_decoder"], Outcome.INVALID, "partitions-missing",
         "UNet partitions are not known; its baseline has them."),
        (["unet", "vae_decoder"], ["unet"], Outcome.NEW, "no-baseline",
         f"{WHOLE}; {DECODER}; of the VAE decoder graph nothing is stored yet."),
        (["unet", "vae_decoder"], ["grown", "text_encoder"], Outcome.INVALID, "partitions-missing",
         "UNet partitions of the text encoder graph are not known; its baseline has them."),
        (["unet", "vae_decoder"], ["grown"], Outcome.IMPROVED, "fewer-partitions",
         (f"{WHOLE}; {DECODER}; in its baseline the UNet graph runs as 2 engines and 2 nodes on the CPU; of the VAE "
         "decoder graph nothing is stored yet.")),
    ],
)  # fmt: skip
def test_a_component_that_is_known_on_one_side_alone(obtained, known, outcome, code, sentence):
    numbers = {"unet": (1, 0), "grown": (2, 2), "vae_decoder": (3, 1), "text_encoder": (1, 0)}
    one, other = (
        {"components": {name.replace("grown", "unet"): partitions(*numbers[name]) for name in names} or {"unet": {}}}
        for names in (obtained, known)
    )
    verdict = parts_judged(now(one, one), before(other))
    assert (verdict.outcome, verdict.code, verdict.sentence) == (outcome, code, sentence)


def test_engines_without_partitions_have_no_such_verdict():
    assert parts_judged(now({}), None) is None


def test_partitions_that_are_not_known_any_more():
    verdict = parts_judged(now({}), before(partitions(1, 0)))
    assert (verdict.outcome, verdict.code) == (Outcome.INVALID, "partitions-missing")
    assert verdict.sentence == "UNet partitions are not known; its baseline has them."
