"""A request beyond the limit of one rounding is judged by several; only plain torch can widen a limit."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pytest_sdperf.checks.agreement.messages import sentences
from pytest_sdperf.checks.agreement.request import compare_request
from pytest_sdperf.checks.precision.drift import drift_of_engine
from pytest_sdperf.checks.precision.roundings import judged_by_several
from pytest_sdperf.core.values.roundings import in_words, labels, parse

random = np.random.default_rng(0)
SHAPE = (1, 4, 8, 8)
LATENTS = random.standard_normal((3, *SHAPE))
# What a picture hangs on: how bright its ground is. Rounding decides how far it goes, and which way.
GROUND = np.ones((1, 3, 32, 32))
IMAGE = np.tanh(np.kron(random.standard_normal((1, 3, 4, 4)), np.ones((1, 1, 8, 8))))


def outputs(brighter, step=1e-3, image=IMAGE):
    return {
        "step_latents": LATENTS * (1 + step),
        "image": image + brighter * GROUND,
        "unet_calls": np.asarray(3),
    }


def judged(obtained, plain, others, dtype="float16"):
    calls = []

    def compare(reference_error):
        return compare_request(obtained, outputs(0.0, 0.0), plain=reference_error, dtype=dtype, by="torch", remedies={})

    def more():
        calls.append(1)
        return others

    return judged_by_several(compare(plain), more, compare), len(calls)


def test_a_lucky_reference_error_does_not_fail_a_build():
    found, _ = judged(
        outputs(0.010), outputs(0.002), [outputs(-0.001), outputs(0.009), outputs(-0.011), outputs(0.003)]
    )
    steps, image, *metrics = found
    assert all(one.passed for one in found)
    assert image.limit == pytest.approx(2 * image.reference_error)
    assert image.reference_error == pytest.approx(0.011 * np.sqrt(GROUND.size) / np.linalg.norm(IMAGE))
    assert [one.roundings for one in (steps, image, *metrics)] == [5] * len(found)
    assert sentences(image) == (
        f"The image has a relative L2 error {image.error:.2e} against torch float32; plain torch float16 has "
        f"{image.reference_error:.2e} in the worst of 5 roundings, so at most {image.limit:.2e} passes."
    )


def test_what_no_rounding_explains_still_fails_and_says_so():
    others = [outputs(0.002), outputs(-0.003), outputs(0.001), outputs(-0.002)]
    found, _ = judged(outputs(0.02, step=9e-3), outputs(0.002), others)
    steps, image, psnr, *_ = found
    assert not any(one.passed for one in (steps, image, psnr))
    assert sentences(steps) == (
        "The latents part from torch float32 at step 1 of 3: relative L2 error 9.00e-03, and plain torch float16 has "
        "1.00e-03 there in the worst of 5 roundings, so at most 2.00e-03 passes. The error was 9.00e-03 after step 1, "
        "9.00e-03 after step 2, 9.00e-03 after step 3."
    )
    assert sentences(image).endswith(
        f"plain torch float16 has {image.reference_error:.2e} in the worst of 5 roundings, so at most "
        f"{image.limit:.2e} passes; the worst element is {image.culprit}."
    )
    assert sentences(psnr) == (
        "The image has PSNR 40.0 dB against torch float32; plain torch float16 has 56.5 dB in the worst of 5 "
        "roundings, so at least 50.5 dB passes."
    )


def test_other_roundings_are_computed_only_where_they_can_change_something():
    assert judged(outputs(0.001), outputs(0.002), [])[1] == 0
    nothing = {**outputs(0.0), "image": np.full_like(IMAGE, np.nan)}
    found, asked = judged({**nothing, "step_latents": LATENTS}, outputs(0.002), [])
    assert asked == 0
    assert not found[1].passed


def test_a_step_is_judged_by_the_widest_limit_of_that_step():
    def latents(*errors):
        return {
            **outputs(0.0),
            "step_latents": np.stack([one * (1 + e) for one, e in zip(LATENTS, errors, strict=True)]),
        }

    found, _ = judged(latents(1e-3, 3e-3, 1.9e-3), latents(1e-3, 1e-3, 1e-3), [latents(1e-3, 2e-3, 5e-4)])
    assert found[0].passed
    assert [step.limit for step in found[0].steps] == pytest.approx([2e-3, 4e-3, 2e-3])
    found, _ = judged(latents(3e-3, 3e-3, 1.9e-3), latents(1e-3, 1e-3, 1e-3), [latents(1e-3, 2e-3, 5e-4)])
    assert found[0].culprit == "step 1 of 3"


def test_a_rounding_that_is_not_finite_widens_nothing():
    broken = {**outputs(0.0), "image": np.full_like(IMAGE, np.inf)}
    found, _ = judged(outputs(0.02), outputs(0.002), [broken])
    assert not found[1].passed
    assert found[1].roundings == 1


def test_a_picture_that_passes_after_all_has_no_bad_name():
    blacker = {**outputs(0.0), "image": np.full_like(IMAGE, -1.0)}
    found, _ = judged(blacker, outputs(0.002), [{**outputs(0.0), "image": np.full_like(IMAGE, -1.2)}])
    assert found[1].passed
    assert (found[1].name, found[1].told) == ("", "")
    found, _ = judged(blacker, outputs(0.002), [outputs(0.002)])
    assert found[1].name == "black"


def test_drift_is_judged_in_the_same_way():
    def drift(reference_error):
        half, single = outputs(0.0, step=3e-3), outputs(0.0, step=0.0)
        return (drift_of_engine(half, single, plain=(reference_error, single), dtype="float16"),)

    (found,) = judged_by_several(drift(outputs(0.0, step=1e-3)), lambda: [outputs(0.0, step=2e-3)], drift)
    assert found.passed
    assert sentences(found) == (
        f"All 3 steps in float16 are within their limits of those in float32; nearest to it is {found.culprit} with a "
        "drift of 3.00e-03, where plain torch drifts by 2.00e-03 in the worst of 2 roundings and at most 4.00e-03 "
        "passes."
    )


@settings(max_examples=40)
@given(st.lists(st.floats(1e-4, 0.05), min_size=1, max_size=5), st.floats(1e-4, 0.2))
def test_no_more_than_twice_the_largest_error_passes(errors, own):
    plain, *others = [outputs(error) for error in errors]
    border = 2 * max(errors)
    assume(abs(own - border) > 1e-9 * border)  # the errors that are measured are these but for rounding
    found, _ = judged(outputs(own), plain, others)
    assert found[1].passed == (own < border)


def test_roundings_have_labels():
    assert labels("float16") == ("float16#1", "float16#2", "float16#3", "float16#4")
    assert [parse(label) for label in ("float16", "float16#3")] == [("float16", 0), ("float16", 3)]
    assert in_words(["float64", "float32"]) == "float64, float32"
    assert in_words(labels("float16")) == "float16 rounded in 4 other ways"
