"""How far half precision may drift from single precision, step by step."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_sdperf.checks.agreement.messages import sentences
from pytest_sdperf.checks.precision.drift import drift_of_engine, drift_of_torch

RANDOM = np.random.default_rng(0)
EXACT = RANDOM.standard_normal((3, 1, 4, 8, 8))
Y, X = np.mgrid[:32, :32] / 32
IMAGE = np.stack([X - 0.5] * 3)[None]


def outputs(size, seed=1, **changed):
    noise = np.random.default_rng(seed).standard_normal((2, *EXACT.shape))
    made = {"step_latents": EXACT * (1 + size * noise[0]), "image": IMAGE + size * noise[1].ravel()[0]}
    return {**made, "range.unet": np.array([[3.0, 0, 8]] * 3), **changed}


SINGLE = outputs(1e-6)


@pytest.mark.parametrize(("dtype", "units"), [("float16", 2**13), ("bfloat16", 2**16)])
def test_torch_may_drift_as_far_as_its_unit_is_larger(dtype, units):
    exact = outputs(0.0)
    found = drift_of_torch(outputs(0.14e-6 * units, 2), SINGLE, exact=exact, dtype=dtype)
    assert (found.level, found.by, found.passed) == ("drift", "rounding", True)
    assert found.limit == pytest.approx(1e-6 * units, rel=0.2)
    assert found.error / found.limit == pytest.approx(0.14, rel=0.3)
    assert sorted(found.details) == ["flip", "psnr", "ssim"]
    too_far = drift_of_torch(outputs(1.5e-6 * units, 2), SINGLE, exact=exact, dtype=dtype)
    assert not too_far.passed
    assert sentences(too_far) == (
        f"In {dtype} the latents drift from those in float32 beyond the limit at step 1 of 3: by "
        f"{too_far.error:.2e}, where rounding explains {too_far.reference_error:.2e} and at most {too_far.limit:.2e} "
        f"passes. The drift was "
        f"{', '.join(f'{step.error:.2e} after step {n}' for n, step in enumerate(too_far.steps, 1))}."
    )


def engine(half, single=SINGLE):
    return drift_of_engine(half, single, plain=(outputs(1e-3, 3), SINGLE), dtype="float16")


def test_an_engine_may_drift_twice_as_far_as_torch():
    found = engine(outputs(1e-3, 4))
    assert found.passed
    assert found.limit == 2 * found.reference_error
    assert sentences(found) == (
        f"All 3 steps in float16 are within their limits of those in float32; nearest to it is {found.culprit} with a "
        f"drift of {found.error:.2e}, where plain torch drifts by {found.reference_error:.2e} and at most "
        f"{found.limit:.2e} passes."
    )


def test_the_step_at_which_an_engine_drifts_too_far_is_named():
    half = outputs(1e-3, 4)
    half["step_latents"][1:] *= 1.01
    found = engine(half)
    assert found.culprit == "step 2 of 3"
    assert sentences(found).startswith(
        f"In float16 the latents drift from those in float32 beyond the limit at step 2 of 3: by {found.error:.2e}, "
        f"where plain torch drifts by {found.reference_error:.2e} and at most {found.limit:.2e} passes. The drift was "
    )


def test_an_overflow_is_named_with_its_component():
    half = outputs(1e-3, 4, **{"range.unet": np.array([[3.0, 0, 8], [2.0, 5, 8], [0, 8, 8]])})
    half["step_latents"][1:] = np.nan
    found = engine(half)
    assert (found.name, found.error, found.details) == ("overflow", math.inf, {})
    first = found.steps[0].error
    assert sentences(found) == (
        f"In float16 the latents are not finite from step 2 of 3 on. The drift was {first:.2e} after step 1. The unet "
        f"began it: 5 of 8 values of its output at step 2 of 3 are not finite; until then none exceeded 3. In float32 "
        f"none exceeds 3. So something inside it went beyond 65504, where float16 ends."
    )


def test_where_torch_itself_is_not_finite_nothing_limits_the_drift():
    broken = outputs(1e-3, 3, step_latents=EXACT * np.nan)
    found = drift_of_engine(outputs(1e-3, 4), SINGLE, plain=(broken, SINGLE), dtype="float16")
    assert not found.passed
    assert sentences(found).startswith(
        "From step 1 of 3 on nothing says how far float16 may drift: what plain torch drifts by is not finite there. "
    )


@settings(max_examples=40)
@given(st.floats(1e-3, 1e-1), st.integers(0, 2**16))
def test_the_limit_of_an_engine_scales_with_torch(size, seed):
    plain = (outputs(size, seed), SINGLE)

    def drift(factor):
        half = outputs(size * factor, seed + 1)
        return drift_of_engine(half, SINGLE, plain=plain, dtype="float16").passed

    assert drift(1.0)
    assert not drift(3.0)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("which", [0, 1])
def test_where_torch_is_not_finite_nothing_says_how_far_an_engine_may_drift(bad, which):
    plain = [outputs(1e-3, 3), outputs(1e-6)]
    plain[which]["step_latents"][1:] = bad
    found = drift_of_engine(outputs(1e-3, 4), SINGLE, plain=tuple(plain), dtype="float16")
    assert [step.passed for step in found.steps] == [True, False, False]
    assert sentences(found) == (
        "From step 2 of 3 on nothing says how far float16 may drift: what plain torch drifts by is not finite there. "
        f"The drift was {', '.join(f'{step.error:.2e} after step {n}' for n, step in enumerate(found.steps, 1))}."
    )
