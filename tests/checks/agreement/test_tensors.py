"""Comparing tensors with a reference: derived limits, and what can never pass."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sdperf.checks.agreement.messages import sentences
from pytest_sdperf.checks.agreement.tensors import compare, reference_error_of, relative_l2
from pytest_sdperf.core.reference_error import FACTOR, HALF_UNIT

RANDOM = np.random.default_rng(0)
REFERENCE = RANDOM.standard_normal((2, 4, 8, 8))
PLAIN = REFERENCE * (1 + 1e-3 * RANDOM.standard_normal(REFERENCE.shape))


def agreement(obtained, *, reference=REFERENCE, plain=PLAIN):
    named = {"out": obtained} if obtained is not None else {}
    return compare(named, {"out": reference}, plain={"out": plain}, level="component", dtype="float16")


def test_the_reference_error_itself_passes_at_half_of_its_limit():
    found = agreement(PLAIN)
    assert found.passed
    assert found.error == pytest.approx(found.limit / FACTOR)
    assert found.reference_error == relative_l2(PLAIN, REFERENCE)


def test_an_error_beyond_the_limit_fails_and_names_the_worst_element():
    obtained = PLAIN.copy()
    obtained[1, 2, 3, 4] += 1.0
    found = agreement(obtained)
    assert not found.passed
    assert found.culprit == "out[1, 2, 3, 4]"
    assert sentences(found) == (
        f"The component has a relative L2 error {found.error:.2e} against torch float32; plain torch float16 has "
        f"{found.reference_error:.2e}, so at most {found.limit:.2e} passes; the worst element is out[1, 2, 3, 4]."
    )


def test_a_lucky_reference_error_does_not_fail_a_build_that_only_rounds():
    obtained = REFERENCE.astype(np.float16)
    assert agreement(obtained, plain=REFERENCE).passed


@pytest.mark.parametrize(
    ("obtained", "text"),
    [
        (None, "The component is not comparable: output 'out' is missing."),
        (
            REFERENCE[:1],
            "The component is not comparable: output 'out' has shape (1, 4, 8, 8), the reference (2, 4, 8, 8).",
        ),
        (
            np.where(np.arange(512).reshape(2, 4, 8, 8) < 3, np.nan, REFERENCE),
            "The component is not comparable: output 'out' holds 3 of 512 values that are not finite.",
        ),
        (
            np.where(np.arange(512).reshape(2, 4, 8, 8) < 1, np.inf, REFERENCE),
            "The component is not comparable: output 'out' holds 1 of 512 values that are not finite.",
        ),
    ],
)
def test_what_cannot_be_compared_fails(obtained, text):
    found = agreement(obtained)
    assert not found.passed
    assert sentences(found) == text


@pytest.mark.parametrize("plain", [PLAIN * np.nan, np.where(REFERENCE > 2, np.inf, PLAIN)])
def test_where_torch_itself_overflows_nothing_passes(plain):
    found = agreement(REFERENCE, plain=plain)
    assert not found.passed
    assert sentences(found) == (
        "The component cannot be judged: plain torch float16 is not finite on these weights and inputs, so nothing "
        "can be called right in this precision."
    )


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_on_either_side_is_infinitely_far_away(bad):
    broken = np.where(REFERENCE > 2, bad, REFERENCE)
    assert relative_l2(broken, REFERENCE) == relative_l2(REFERENCE, broken) == relative_l2(broken, broken) == math.inf
    assert relative_l2(REFERENCE, REFERENCE * 0) == math.inf
    assert reference_error_of([REFERENCE, broken], REFERENCE, dtype="float16") == math.inf
    assert reference_error_of([broken, REFERENCE], REFERENCE, dtype="float16") == math.inf


def test_a_reference_of_zeros_passes_nothing():
    assert not agreement(REFERENCE, reference=REFERENCE * 0).passed


def test_the_output_with_the_largest_share_of_its_limit_decides():
    reference = {"good": REFERENCE, "bad": REFERENCE}
    obtained = {"good": PLAIN, "bad": PLAIN * 1.1}
    found = compare(obtained, reference, plain={"good": PLAIN, "bad": PLAIN}, level="component", dtype="float16")
    assert found.culprit.startswith("bad[")


@given(st.floats(1e-6, 1e-1), st.integers(0, 2**16))
def test_the_limit_scales_with_the_reference_error(size, seed):
    noise = np.random.default_rng(seed).standard_normal(REFERENCE.shape)
    plain = REFERENCE + size * noise
    reference_error = max(relative_l2(plain, REFERENCE), HALF_UNIT["float16"])
    # The same error in another direction passes, three times as much never does.
    assert agreement(REFERENCE - size * noise, plain=plain).passed
    assert not agreement(
        REFERENCE + 3 * reference_error / relative_l2(plain, REFERENCE) * size * noise, plain=plain
    ).passed


def test_a_sentence_names_what_computed_the_reference():
    found = dataclasses.replace(agreement(PLAIN), by="onnxruntime")
    assert sentences(found) == (
        f"The component has a relative L2 error {found.error:.2e} against onnxruntime float32; plain onnxruntime "
        f"float16 has {found.reference_error:.2e}, so at most {found.limit:.2e} passes."
    )


def test_what_is_not_finite_in_float16_alone_is_an_overflow():
    assert agreement(REFERENCE * np.inf).name == "overflow"
    assert agreement(REFERENCE * np.inf, reference=REFERENCE * np.nan).name == "NaN"
    found = compare({"out": REFERENCE * np.nan}, {"out": REFERENCE}, plain={"out": PLAIN}, level="x", dtype="float32")
    assert found.name == "NaN"
