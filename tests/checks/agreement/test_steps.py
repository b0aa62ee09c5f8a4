"""Every denoising step has a limit of its own, and the first one beyond it is named."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pytest_sdperf.checks.agreement.messages import sentences
from pytest_sdperf.checks.agreement.steps import compare_steps, first_beyond
from pytest_sdperf.core.files.strict_json import convert

RANDOM = np.random.default_rng(0)
CALLS = 5
REFERENCE = RANDOM.standard_normal((CALLS, 1, 4, 8, 8))
# Plain torch drifts too: its error grows by half at every step.
GROWTH = 1e-3 * 1.5 ** np.arange(CALLS).reshape(CALLS, 1, 1, 1, 1)
PLAIN = REFERENCE * (1 + GROWTH * RANDOM.standard_normal(REFERENCE.shape))


def compared(obtained, *, plain=PLAIN, reference=REFERENCE):
    return compare_steps(obtained, reference, plain=plain, dtype="float16")


def test_the_limit_of_a_step_is_twice_the_error_of_plain_torch_at_that_step():
    found = compared(PLAIN)
    assert found.passed
    assert [step.error * 2 for step in found.steps] == [step.limit for step in found.steps]
    assert found.steps[4].limit > 3 * found.steps[0].limit
    assert sentences(found) == (
        f"All 5 steps are within their limits; nearest to it is {found.culprit} with a relative L2 error "
        f"{found.error:.2e} against torch float32, where at most {found.limit:.2e} passes."
    )


def test_the_first_step_beyond_its_limit_is_named_with_how_the_error_grew():
    obtained = PLAIN.copy()
    obtained[2:] += 0.01
    found = compared(obtained)
    assert (found.culprit, found.error) == ("step 3 of 5", found.steps[2].error)
    growth = ", ".join(f"{step.error:.2e} after step {number}" for number, step in enumerate(found.steps, 1))
    assert sentences(found) == (
        f"The latents part from torch float32 at step 3 of 5: relative L2 error {found.error:.2e}, and plain torch "
        f"float16 has {found.reference_error:.2e} there, so at most {found.limit:.2e} passes. The error was {growth}."
    )


def test_a_step_that_comes_back_is_named_all_the_same():
    obtained = PLAIN.copy()
    obtained[1] += 1
    found = compared(obtained)
    assert (found.passed, found.culprit) == (False, "step 2 of 5")


def test_of_many_steps_a_few_are_told():
    calls = 50
    reference = RANDOM.standard_normal((calls, 1, 4, 4, 4))
    found = compared(reference + 0.5, reference=reference, plain=reference * 1.001)
    assert sentences(found).count("after step") == 5


def test_steps_that_are_not_finite_begin_somewhere():
    obtained = PLAIN.copy()
    obtained[3:, 0, 0, 0, 0] = np.inf
    found = compared(obtained)
    assert (found.culprit, found.error) == ("step 4 of 5", math.inf)
    growth = ", ".join(f"{step.error:.2e} after step {number}" for number, step in enumerate(found.steps[:3], 1))
    assert sentences(found) == f"From step 4 of 5 on the latents are not finite. The error was {growth}."


def test_where_plain_torch_is_not_finite_there_is_no_reference_error():
    plain = PLAIN.copy()
    plain[1:] = np.nan
    found = compared(PLAIN, plain=plain)
    assert not found.passed
    assert sentences(found) == (
        "From step 2 of 5 on nothing can be judged: plain torch float16 is not finite there, so nothing can be called "
        "right in this precision."
    )


def test_another_number_of_calls_cannot_be_compared():
    found = compared(PLAIN[:4])
    assert not found.passed
    assert sentences(found) == "The steps are not comparable: 4 UNet calls were made, and 5 by the reference."


def test_latents_of_another_shape_cannot_be_compared():
    assert sentences(compared(PLAIN[:, :, :, :4])) == (
        "The steps are not comparable: the latents have shape (1, 4, 4, 8), and those of the reference (1, 4, 8, 8)."
    )


def test_an_agreement_of_steps_survives_its_way_to_the_report():
    found = compared(PLAIN)
    assert convert(dataclasses.asdict(found), type(found)) == found


@given(st.integers(0, CALLS - 1), st.floats(1e-3, 1e3), st.integers(0, 2**16))
def test_whatever_step_goes_wrong_first_is_the_one_that_is_named(step, size, seed):
    obtained = REFERENCE.copy()
    for index in range(step, CALLS):
        noise = np.random.default_rng(seed + index).standard_normal(REFERENCE[index].shape)
        limit = compared(PLAIN).steps[index].limit * (1 + size)
        obtained[index] += noise * limit * np.linalg.norm(REFERENCE[index]) / np.linalg.norm(noise)
    assert first_beyond(compared(obtained).steps) == step + 1
