"""A whole request: levels in the order of the data flow, and which component went beyond its range."""

from __future__ import annotations

import numpy as np
import pytest
from sample_values import case

from pytest_sdperf.checks.agreement.hints import remedies
from pytest_sdperf.checks.agreement.messages import sentences
from pytest_sdperf.checks.agreement.ranges import FirstNonFinite, origin_of
from pytest_sdperf.checks.agreement.request import compare_request

RANDOM = np.random.default_rng(0)
Y, X = np.mgrid[:64, :64] / 64
STEPS = RANDOM.standard_normal((3, 1, 4, 8, 8))
IMAGE = np.stack([X - 0.5] * 3)[None]
CALLS = {"text_encoder": [[4, 0, 10], [5, 0, 10]], "unet": [[3, 0, 8], [2, 0, 8], [2.5, 0, 8]]}
CALLS["vae_decoder"] = [[1.5, 0, 20]]
NAN = np.nan


def outputs(noise=0.0, **changed):
    ranges = {f"range.{name}": np.array(changed.pop(name, calls), float) for name, calls in CALLS.items()}
    made = {"image": IMAGE, "latents": STEPS[-1], "step_latents": STEPS, "unet_calls": np.array(3)}
    made |= {name: array + noise * RANDOM.standard_normal(array.shape) for name, array in made.items()}
    return {**made, **changed, **ranges}


def compared(obtained, plain=None, dtype="float16", **advice):
    plain = outputs(1e-3) if plain is None else plain
    return compare_request(obtained, outputs(), plain=plain, dtype=dtype, by="torch", remedies=advice)


def test_a_healthy_request_passes_at_every_level():
    found = compared(outputs(1e-3))
    assert [(one.level, one.metric) for one in found] == [
        ("steps", "relative-l2"), ("image", "relative-l2"), ("image", "psnr"), ("image", "ssim"), ("image", "flip"),
    ]  # fmt: skip
    assert all(one.passed and not one.name and not one.told for one in found)


def test_the_unet_is_named_with_the_step_at_which_it_begins():
    bad = STEPS.copy()
    bad[1:] = NAN
    broken = outputs(step_latents=bad, image=IMAGE * NAN, unet=[[3, 0, 8], [2, 4, 8], [0, 8, 8]])
    steps, image = compared(broken, unet="Type something.")
    assert (steps.name, steps.culprit, image.name) == ("overflow", "step 2 of 3", "NaN")
    assert sentences(steps) == (
        "From step 2 of 3 on the latents are not finite. The error was 0.00e+00 after step 1. The unet began it: 4 of "
        "8 values of its output at step 2 of 3 are not finite; until then none exceeded 3. In torch float32 none "
        "exceeds 3. So something inside it went beyond 65504, where float16 ends. Type something."
    )
    assert sentences(image) == "The image is NaN: 12288 of 12288 values are not finite."


def test_the_decoder_is_named_where_every_step_is_right():
    steps, image = compared(outputs(image=IMAGE * NAN, vae_decoder=[[0, 20, 20]]), vae_decoder="Set something.")
    assert steps.passed
    assert sentences(image) == (
        "The image is NaN: 12288 of 12288 values are not finite. The vae_decoder began it: 20 of 20 values of its "
        "output in call 1 are not finite. In torch float32 none exceeds 1.5. So something inside it went beyond 65504, "
        "where float16 ends. Set something."
    )


def test_a_text_encoder_is_named_before_the_unet():
    broken = outputs(step_latents=STEPS * NAN, text_encoder=[[0, 10, 10]] * 2, unet=[[0, 8, 8]] * 3)
    assert (
        "The text_encoder began it: 10 of 10 values of its output in call 1 are not finite." in compared(broken)[0].told
    )


def test_what_plain_torch_does_too_is_said():
    broken = outputs(image=IMAGE * NAN, vae_decoder=[[0, 20, 20]])
    _, image = compared(broken, broken, **remedies(case(component="pipeline"), upcasts=False))
    assert not image.passed
    assert sentences(image) == (
        "The image cannot be judged: plain torch float16 is not finite on these weights and inputs, so nothing can be "
        "called right in this precision. The image is NaN: 12288 of 12288 values are not finite. The vae_decoder began "
        "it: 20 of 20 values of its output in call 1 are not finite. In torch float32 none exceeds 1.5. So something "
        "inside it went beyond 65504, where float16 ends. The vae_decoder of plain torch float16 puts out values that "
        "are not finite, too. The configuration of the VAE lacks force_upcast, with which the vae_decoder of a float16 "
        "pipeline runs in float32, as that of SDXL has to: set force_upcast, or run the pipeline in bfloat16."
    )


def test_in_a_wider_type_it_is_no_overflow():
    broken = outputs(step_latents=STEPS * NAN, unet=[[0, 8, 8]] * 3)
    steps = compared(broken, dtype="bfloat16")[0]
    assert steps.name == "NaN"
    assert sentences(steps) == (
        "From step 1 of 3 on the latents are not finite. The unet began it: 8 of 8 values of its output at step 1 of 3 "
        "are not finite. In torch float32 none exceeds 3."
    )


def without_ranges(made):
    return {name: array for name, array in made.items() if not name.startswith("range.")}


def test_a_pipeline_that_nobody_looks_into_had_a_bad_decoder_where_its_latents_are_finite():
    assert origin_of(without_ranges(outputs(image=IMAGE * NAN))) == FirstNonFinite(
        "vae_decoder", 1, 1, 12288, 12288, None
    )
    assert origin_of(without_ranges(outputs(image=IMAGE * NAN, step_latents=STEPS * NAN))) is None
    assert origin_of(without_ranges(outputs())) is None


def test_a_pipeline_that_tells_of_no_step_is_compared_by_its_image():
    told = outputs(1e-3)
    del told["step_latents"]
    assert [one.level for one in compared(told)] == ["image"] * 4


@pytest.mark.parametrize(
    ("fields", "upcasts", "unet", "decoder"),
    [
        ({}, True, "can stay float32: type --sdperf-force-fp32-ops=unet:MultiHeadAttention", "says force_upcast"),
        ({"exporter": ""}, False, "need upcast_attention in the configuration", "lacks force_upcast"),
        ({"exporter": "external"}, False, "", "lacks force_upcast"),
        ({"fp32_ops": "unet:MatMul"}, False, "", "lacks force_upcast"),
    ],
)
def test_what_can_be_done_depends_on_who_builds(fields, upcasts, unet, decoder):
    found = remedies(case(**fields), upcasts=upcasts)
    assert unet in found.get("unet", "")
    assert ("unet" in found) == bool(unet)
    assert decoder in found["vae_decoder"]
