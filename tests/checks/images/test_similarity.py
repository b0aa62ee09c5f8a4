"""PSNR, SSIM and FLIP as errors: zero for equal pictures, larger the farther they are apart."""

from __future__ import annotations

import importlib.util
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_sdperf.checks.images import similarity
from pytest_sdperf.checks.images.similarity import errors, missing, spelled

NAMES = ["psnr", "ssim", "flip"]


def pictures(seed, count=1, side=32):
    return np.random.default_rng(seed).normal(0, 0.5, (count, 3, side, side))


def test_equal_pictures_have_no_error():
    assert errors(pictures(0), pictures(0)) == dict.fromkeys(NAMES, 0.0)


@settings(max_examples=40)
@given(st.integers(0, 2**16), st.floats(0.01, 0.1))
def test_what_is_farther_off_has_a_larger_error(seed, size):
    reference, change = pictures(seed), pictures(seed + 1) * size
    near, far = errors(reference + change, reference), errors(reference + 2 * change, reference)
    assert all(0 < near[name] < far[name] for name in NAMES)


def test_of_several_pictures_the_worst_one_counts():
    reference = pictures(0, count=3)
    obtained = reference.copy()
    obtained[1] += 0.1
    assert errors(obtained, reference) == errors(obtained[1:2], reference[1:2])


def test_psnr_is_that_of_the_definition():
    reference = np.zeros((1, 3, 16, 16))
    # 0.2 of a range of 2 is a tenth of the range: 20 dB.
    assert errors(reference + 0.2, reference)["psnr"] == pytest.approx(0.1)
    assert spelled("psnr", 0.1) == "PSNR 20.0 dB"


def test_what_a_screen_clips_is_no_difference():
    reference = np.ones((1, 3, 16, 16))
    assert errors(reference * 3, reference) == dict.fromkeys(NAMES, 0.0)


def test_a_picture_smaller_than_the_window_of_ssim_has_psnr_alone():
    assert list(errors(pictures(0, side=8), pictures(1, side=8))) == ["psnr"]


def test_without_the_packages_psnr_is_left(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert missing() == ("ssim", "flip")
    assert list(errors(pictures(0), pictures(1))) == ["psnr"]


@pytest.mark.parametrize(
    ("metric", "error", "text"),
    [
        ("psnr", 0.0, "PSNR infinite"),
        ("psnr", 10**-2.605, "PSNR 52.1 dB"),
        ("ssim", 0.00188, "SSIM 0.99812"),
        ("flip", 0.01234, "FLIP 0.0123"),
    ],
)
def test_an_error_is_written_as_its_metric_usually_is(metric, error, text):
    assert spelled(metric, error) == text


def test_every_metric_is_one_of_the_table():
    assert list(similarity._ERRORS) == NAMES
    assert not math.isnan(sum(errors(pictures(0), pictures(1)).values()))
