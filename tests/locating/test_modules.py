"""The first module that is wrong, among those that hold it and those that follow."""

from __future__ import annotations

import numpy as np

from pytest_sdperf.located import Spot
from pytest_sdperf.locating.modules import first_wrong, found_in

RANDOM = np.random.default_rng(0)
ORDER = ("net.0.norm", "net.0.act", "net.0.act#2", "net.0", "net.1", "net")
EXACT = {name: RANDOM.standard_normal(64) for path in ORDER for name in (f"{path}<0", path)}
PLAIN = {name: array * (1 + 1e-4) for name, array in EXACT.items()}


def obtained(*wrong):
    return {name: array * (1.01 if name in wrong else 1 + 1e-4) for name, array in EXACT.items()}


def look(*wrong):
    return first_wrong(obtained(*wrong), EXACT, PLAIN, floating="float32")


def test_the_innermost_module_that_all_around_it_confirm():
    spot, inputs, last, places = look("net.0.act#2", "net.0", "net.1<0", "net.1", "net")
    assert (spot.path, spot.error > spot.limit, places) == ("net.0.act", True, 6)
    assert [one.value for one in inputs] == ["input 0"]
    assert inputs[0].error <= inputs[0].limit
    assert last.path == "net.0.act"  # its first call


def test_a_module_that_is_wrong_alone_is_passed_over():
    spot, _, _, _ = look("net.0.norm", "net.1", "net")
    assert spot.path == "net.1"


def test_nothing_is_wrong():
    found = look()
    assert found[0] is None
    located = found_in(found, "unet")
    assert (located.kind, located.told) == ("spread", "Each of its modules agrees; errors add up.")


def test_not_finite():
    broken = {**obtained("net.1", "net"), "net.0": np.full(64, np.nan), "net": np.full(64, np.nan)}
    spot, _, _, _ = first_wrong(broken, EXACT, PLAIN, floating="float16")
    assert isinstance(spot, Spot)
    assert (spot.path, spot.error) == ("net.0", np.inf)
