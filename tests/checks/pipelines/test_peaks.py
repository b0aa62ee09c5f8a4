"""What a device does at most."""

from __future__ import annotations

import pytest

from pytest_sdperf.checks.pipelines.case_floor import bound_of, device_floor, sheet_of
from pytest_sdperf.core.device import Device
from pytest_sdperf.core.values.calibration import Calibration
from pytest_sdperf.core.values.floor import Kernel, Part, Peaks, Work

H100 = Device("cuda", "NVIDIA H100 80GB HBM3", "h100-sxm5-80gb")
GEFORCE = Device("cuda", "NVIDIA GeForce RTX 4090", "rtx-4090")
STRANGE = Device("cuda", "NVIDIA X1", "x1-24gb")
CPU = Device("cpu", "A CPU", "cpu-a-2c")
MEASURED = Calibration(790e12, 3.0e12, "float16", "torch 2.13.0")
PARTS = (Part(Work((Kernel("product", 10**12, 10, 1),), 10, 10), 1, "float16"),)


def test_the_data_sheet_is_that_of_the_card():
    assert sheet_of(H100) == Peaks(989.4e12, 3350e9)
    assert sheet_of(Device("cuda", "", "h100-sxm5-80gb-mig-1g-10gb")) == sheet_of(H100)
    assert (sheet_of(CPU), sheet_of(STRANGE)) == (None, None)


def test_a_card_may_accumulate_in_half_precision_and_boost_beyond_its_data_sheet():
    assert sheet_of(GEFORCE) == Peaks(165.2e12, 1008e9)
    assert bound_of(GEFORCE, None) == Peaks(330.3e12, 1008e9)
    assert bound_of(H100, MEASURED) == Peaks(989.4e12, 3350e9)
    assert bound_of(H100, Calibration(1000e12, 3.4e12, "float16", "")) == Peaks(1000e12, 3.4e12)
    assert bound_of(STRANGE, MEASURED) is None


@pytest.mark.parametrize(
    ("device", "calibration", "basis", "seconds", "bound_s"),
    [
        (H100, None, "data sheet", 1 / 989.4, 1 / 989.4),
        (H100, MEASURED, "measured", 1 / 790, 1 / 989.4),
        (STRANGE, MEASURED, "measured", 1 / 790, 0.0),
    ],
)
def test_the_floor_rests_on_what_was_measured_and_the_bound_on_the_data_sheet(
    device, calibration, basis, seconds, bound_s
):
    floor = device_floor(PARTS, device, calibration)
    assert (floor.basis, floor.seconds, floor.bound_s) == (basis, pytest.approx(seconds), pytest.approx(bound_s))


@pytest.mark.parametrize(("device", "calibration"), [(CPU, None), (CPU, MEASURED), (STRANGE, None)])
def test_what_nobody_knows_has_no_floor(device, calibration):
    assert device_floor(PARTS, device, calibration) is None
