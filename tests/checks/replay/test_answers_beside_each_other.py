from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pytest_sdperf.checks.replay.calls import Answers
from pytest_sdperf.checks.replay.compare import answer_of, is_indistinct, limits_of, spread_of, with_stale
from pytest_sdperf.tasks._kept import Held

RIGHT = np.arange(1.0, 9.0, dtype=np.float32).reshape(2, 4)
LIMITS = {"out": 1e-3}

PAIRS = ((1e-3, 3e-3), (2e-3, 1e-3))  # errors of two outputs in two roundings


def spread(*others, limits=LIMITS):
    return spread_of("calls", [{"out": RIGHT}, *({"out": other} for other in others)], limits)


@given(st.floats(1e-6, 1.0))
def test_the_distance_is_relative_and_the_farthest_counts(share):
    found = spread(RIGHT, (RIGHT * (1 + share)).astype(np.float32))
    assert found.largest == pytest.approx(share, rel=0.05, abs=2e-7)
    assert not found.equal
    assert found.passed == (found.largest <= 1e-3)


def test_equal_bits_are_equal():
    found = spread(RIGHT.copy(), RIGHT.copy())
    assert (found.largest, found.equal, found.output) == (0.0, True, "out")
    assert not spread(-RIGHT * 0 + RIGHT + 1e-7 * (RIGHT > 7)).equal


@pytest.mark.parametrize("other", [RIGHT[:1], RIGHT * np.float32(np.nan), RIGHT * np.float32(np.inf)])
def test_what_cannot_be_compared_never_passes(other):
    found = spread(other)
    assert (found.largest, found.passed, found.equal) == (math.inf, False, False)


def test_an_output_that_is_missing_never_passes():
    assert spread_of("calls", [{"out": RIGHT}, {}], LIMITS).largest == math.inf


def test_the_output_that_is_nearest_to_its_limit_decides():
    first, other = {"a": RIGHT, "b": RIGHT}, {"a": RIGHT * np.float32(1.01), "b": RIGHT * np.float32(1.001)}
    assert spread_of("calls", [first, other], {"a": 1.0, "b": 1e-3}).output == "b"


def test_a_limit_is_twice_the_reference_error_and_no_smaller_than_rounding():
    exact, rough = {"out": RIGHT.astype(np.float64)}, {"out": RIGHT * np.float32(1.001)}
    assert limits_of(exact, [rough], dtype="float32")["out"] == pytest.approx(2e-3, rel=1e-3)
    assert limits_of(exact, [{"out": RIGHT}], dtype="float32") == {"out": 2.0**-24}


def test_of_several_roundings_the_farthest_counts():
    exact = {"a": RIGHT, "b": RIGHT}
    rough = [{"a": RIGHT * np.float32(1 + one), "b": RIGHT * np.float32(1 + other)} for one, other in PAIRS]
    limits = limits_of(exact, rough, dtype="float32")
    assert [limits["a"], limits["b"]] == pytest.approx([4e-3, 6e-3], rel=1e-3)
    obtained = {"a": RIGHT * np.float32(1.003), "b": RIGHT * np.float32(1.005)}
    answer = answer_of("B", obtained, exact, rough, dtype="float32")
    assert answer.passed
    assert answer.limit == pytest.approx(6e-3, rel=1e-3)
    assert not answer_of("B", obtained, exact, rough[:1], dtype="float32").passed


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_where_torch_is_not_finite_in_any_rounding_there_is_no_limit(dtype, place, bad):
    """An engine that stays finite there is told neither that it is right nor whose its answer is."""
    rough = [{"out": RIGHT.copy()}, {"out": RIGHT.copy()}]
    rough[place]["out"][0, 0] = bad
    limits = limits_of({"out": RIGHT}, rough, dtype=dtype)
    assert limits == {"out": math.inf}
    assert not spread_of("calls", [{"out": RIGHT}, {"out": RIGHT}], limits).passed
    answer = answer_of("B", {"out": RIGHT}, {"out": RIGHT}, rough, dtype=dtype)
    assert (answer.limit, answer.passed) == (math.inf, False)
    assert with_stale(answer, {"out": RIGHT}, {"out": -RIGHT}, limits, call="A").stale == ""
    assert not is_indistinct({"out": RIGHT}, {"out": RIGHT}, limits)


def test_equal_answers_that_are_not_finite_never_pass():
    broken = {"out": RIGHT * np.float32(np.nan)}
    found = spread_of("calls", [broken, broken], LIMITS)
    assert (found.largest, found.passed, found.equal) == (math.inf, False, True)


def test_a_wrong_answer_says_whose_it_is():
    exact, other = {"out": RIGHT}, {"out": RIGHT[:, ::-1].copy()}
    answer = answer_of("B", exact, other, [other], dtype="float32")
    assert not answer.passed
    assert with_stale(answer, exact, exact, LIMITS, call="A").stale == "A"
    assert with_stale(answer, {"out": 2 * RIGHT}, exact, LIMITS, call="A").stale == ""
    assert is_indistinct(exact, {"out": RIGHT * np.float32(1.005)}, LIMITS)
    assert not is_indistinct(exact, other, LIMITS)


def test_graphs_are_counted_at_first_calls_and_at_later_ones():
    assert Answers([], (), (1, 2, 2, 3), {}).prepared_by(2) == {"first": 2, "later": 1}
    assert Answers([], (), (), {}).prepared_by(2) == {}


def test_what_is_held_is_looked_at_again():
    held, tensor, array = Held(), torch.ones(3), np.ones(3)
    call = held.watched("unet", lambda inputs: {"out_sample": tensor})
    call({})
    held.keep({"image": array})
    assert held.changed() == []
    tensor += 1
    assert held.changed() == ["unet.out_sample"]
    array[0] = 5
    assert held.changed() == ["image", "unet.out_sample"]


def test_only_the_first_calls_of_a_component_are_held():
    held, late = Held(), torch.zeros(1)
    outputs = iter([*(torch.ones(1) for _ in range(Held.MOST)), late])
    call = held.watched("unet", lambda inputs: {"out_sample": next(outputs)})
    for _ in range(Held.MOST + 1):
        call({})
    late += 1
    assert held.changed() == []
