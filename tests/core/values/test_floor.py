"""The arithmetic of the physical floor."""

from __future__ import annotations

import json

import pytest

from pytest_sdperf.core.files.strict_json import convert
from pytest_sdperf.core.values import to_json
from pytest_sdperf.core.values.floor import LARGEST_CACHE_BYTES, Floor, Kernel, Part, Peaks, Work, floor_of

# One TFLOP/s and one TB/s: an operation and a byte take as long.
PEAKS = Peaks(1e12, 1e12)
COMPUTES = Kernel("product", 1_000_000, 10_000, 3)
MOVES = Kernel("attention", 1_000, 1_000_000, 2)
WORK = Work((COMPUTES, MOVES), weights=500_000, tensors=1_000)


def floor(*parts, bound=None):
    return floor_of(parts, peaks=PEAKS, basis="measured", bound=bound)


def test_each_kernel_takes_the_longer_of_computing_and_moving():
    found = floor(Part(WORK, 1, "float16"))
    assert found.seconds == pytest.approx((3 * 1e6 + 2 * 2e6) / 1e12)
    assert (found.flops, found.attention_flops, found.bytes) == (3_002_000, 2_000, 2 * 501_000)
    assert (found.basis, found.bound_s) == ("measured", 0.0)


def test_float32_computes_at_half_the_rate_and_moves_twice_the_bytes():
    assert floor(Part(WORK, 1, "float32")).seconds == pytest.approx((3 * 2e6 + 2 * 4e6) / 1e12)
    assert floor(Part(WORK, 1, "bfloat16")) == floor(Part(WORK, 1, "float16"))


def test_calls_and_parts_add_up():
    whole, one = floor(Part(WORK, 51, "float16"), Part(WORK, 2, "float16")), floor(Part(WORK, 1, "float16"))
    assert whole.seconds == pytest.approx(53 * one.seconds)
    assert whole.flops == 53 * one.flops


def test_no_rate_is_known_for_float64():
    assert floor(Part(WORK, 1, "float16"), Part(WORK, 1, "float64")) is None


def test_the_bound_counts_operations_alone_where_weights_may_stay_in_a_cache():
    assert floor(Part(WORK, 2, "float16"), bound=Peaks(2e12, 1e12)).bound_s == pytest.approx(2 * 3_002_000 / 2e12)


def test_the_bound_counts_weights_that_fit_no_cache():
    large = Work((COMPUTES,), weights=LARGEST_CACHE_BYTES, tensors=0)  # twice its size in half precision
    found = floor(Part(large, 1, "float16"), bound=PEAKS)
    assert found.bound_s == pytest.approx(LARGEST_CACHE_BYTES / 1e12)


def test_the_share_is_that_of_the_speed():
    assert Floor(1e12, 0, 1e9, seconds=2.27e-3, basis="measured").share(7.03e-3) == pytest.approx(0.3229, abs=1e-4)


def test_work_survives_json():
    assert convert(json.loads(json.dumps(to_json(WORK))), Work) == WORK
