"""A device compared with itself on other days."""

from __future__ import annotations

import dataclasses

import pytest

from pytest_sdperf.core.values.calibration import Calibration, others, slowdown

NOW = Calibration(600e12, 3.0e12, "float16", "torch 2.13.0")


def then(flops_per_s=750e12, **fields):
    return dataclasses.replace(NOW, flops_per_s=flops_per_s, **fields)


@pytest.mark.parametrize(
    ("before", "product", "copy"),
    [
        ([then()], 1.25, 1.0),
        ([then(450e12)], 0.75, 1.0),
        ([then(600e12), None, then(750e12), then(900e12)], 1.25, 1.0),
        ([then(600e12, bytes_per_s=3.3e12)], 1.0, 1.1),
        ([then(dtype="float32"), then(600e12)], 1.0, 1.0),
        ([then(900e12, by="torch 2.11.0"), then(750e12)], 1.25, 1.0),
    ],
)
def test_a_device_is_compared_with_the_median_of_its_sessions(before, product, copy):
    found = slowdown(before, NOW)
    assert (found.product, found.copy) == (pytest.approx(product), pytest.approx(copy))
    assert found.ratio == max(found.product, found.copy)


@pytest.mark.parametrize(
    ("before", "now"),
    [([], NOW), ([None], NOW), ([then()], None), ([then(dtype="bf")], NOW), ([then(by="torch 2.11.0")], NOW)],
)
def test_what_was_not_measured_is_not_compared(before, now):
    assert slowdown(before, now) is None


@pytest.mark.parametrize(
    ("before", "now", "found"),
    [
        ([None, then(by="torch 2.11.0"), then(by="torch 2.12.0"), then(by="torch 2.11.0")], NOW, 2),
        ([then(by="torch 2.11.0"), then()], NOW, 0),
        ([then(by="torch 2.11.0")], None, 0),
        ([then(dtype="float32")], NOW, 0),
        ([None], NOW, 0),
    ],
)
def test_other_libraries_are_named_where_nothing_compares(before, now, found):
    assert others(before, now) == ("torch 2.11.0", "torch 2.12.0")[:found]
