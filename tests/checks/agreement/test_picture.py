"""The decoded image: as a tensor, by name where it is wrong at a glance, and by what a person sees."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_sdperf.checks.agreement.messages import sentences
from pytest_sdperf.checks.agreement.picture import compare_picture

RANDOM = np.random.default_rng(0)
Y, X = np.mgrid[:64, :64] / 64
REFERENCE = np.stack([np.where((X - 0.5) ** 2 + (Y - 0.5) ** 2 < 0.05, 0.8, X - 0.5)] * 3)[None]
PLAIN = REFERENCE + 2e-3 * RANDOM.standard_normal(REFERENCE.shape)


def compared(obtained, *, reference=REFERENCE, plain=PLAIN):
    return list(compare_picture(obtained, reference, plain=plain, dtype="float16"))


def test_a_healthy_image_passes_at_every_metric():
    found = compared(REFERENCE + 2e-3 * RANDOM.standard_normal(REFERENCE.shape))
    assert [one.metric for one in found] == ["relative-l2", "psnr", "ssim", "flip"]
    assert all(one.passed and not one.name for one in found)


def test_the_limit_of_psnr_is_six_decibels_below_that_of_plain_torch():
    _, psnr, *_ = compared(PLAIN)
    assert psnr.limit / psnr.reference_error == pytest.approx(2)
    assert sentences(psnr) == (
        "The image has PSNR 60.0 dB against torch float32; plain torch float16 has 60.0 dB, so at least 54.0 dB passes."
    )


def test_no_limit_is_below_rounding_to_the_levels_of_a_file():
    rounded = np.round((REFERENCE + 1) * 127.5) / 127.5 - 1
    _, *metrics = compared(rounded, plain=REFERENCE + 1e-9)
    assert [one.metric for one in metrics if one.passed] == ["psnr", "ssim", "flip"]


def test_flip_is_told_as_an_error():
    flip = compared(PLAIN + 0.1)[3]
    assert not flip.passed
    assert sentences(flip) == (
        f"The image has FLIP {flip.error:.3g} against torch float32; plain torch float16 has "
        f"{flip.reference_error:.3g}, so at most {flip.limit:.3g} passes."
    )


def test_an_image_that_is_wrong_at_a_glance_is_called_by_its_name():
    whole, *_ = compared(REFERENCE * 0 - 1)
    assert (whole.passed, whole.name) == (False, "black")
    assert sentences(whole) == (
        f"The image has a relative L2 error {whole.error:.2e} against torch float32; plain torch float16 has "
        f"{whole.reference_error:.2e}, so at most {whole.limit:.2e} passes; the worst element is image[0, 0, 18, 30]. "
        "The image is black: no value is brighter than 0 of 255, of the reference no value is brighter than 230 of 255."
    )


def test_an_image_that_is_not_finite_has_no_metric():
    (whole,) = compared(REFERENCE * np.nan)
    assert sentences(whole) == "The image is NaN: 12288 of 12288 values are not finite."


@pytest.mark.parametrize(("level", "name"), [(-1.0, "black"), (0.3, "flat")])
def test_by_a_reference_that_shows_nothing_nothing_is_right(level, name):
    blank = REFERENCE * 0 + level
    (whole,) = compared(blank, reference=blank, plain=blank + 1e-3)
    assert (whole.passed, whole.name) == (False, name)
    assert sentences(whole).startswith(f"The image of the reference is {name} itself: ")
    assert sentences(whole).endswith(". Nothing can be seen by it.")


def test_an_image_of_another_shape_is_not_looked_at():
    (whole,) = compared(REFERENCE[..., :32])
    assert sentences(whole) == (
        "The image is not comparable: output 'image' has shape (1, 3, 64, 32), the reference (1, 3, 64, 64)."
    )


@settings(max_examples=15)  # of 0.1 s each
@given(st.integers(0, 2**16), st.floats(1e-4, 2e-2))
def test_another_image_as_near_as_plain_torch_passes_everywhere(seed, size):
    drawn = np.random.default_rng(seed).standard_normal((2, *REFERENCE.shape))
    assert all(one.passed for one in compared(REFERENCE + size * drawn[0], plain=REFERENCE + size * drawn[1]))


@settings(max_examples=15)
@given(st.integers(0, 2**16), st.floats(1e-2, 2e-2))
def test_four_times_as_far_fails_everywhere(seed, size):
    drawn = np.random.default_rng(seed).standard_normal((2, *REFERENCE.shape))
    assert not any(one.passed for one in compared(REFERENCE + 4 * size * drawn[0], plain=REFERENCE + size * drawn[1]))
