"""How fast the device itself multiplies and copies."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.errors import EngineMissingError
from pytest_sdperf.core.values.calibration import Calibration
from pytest_sdperf.tasks import TaskContext, calibrate
from pytest_sdperf.tasks.sampling.phases import Silent


def calibrated(kind):
    said = []
    context = TaskContext(Path(), Catalog(), Silent(), said.append)
    answer = calibrate.run(calibrate.CalibrateDevice(kind), context)
    assert said == ["calibrating the device"]
    return answer


def test_a_processor_is_calibrated_with_numpy_alone():
    answer = calibrated("cpu")
    assert (answer.dtype, answer.by.split()[0]) == ("float32", "numpy")
    assert 1e9 < answer.flops_per_s < 1e14
    assert 1e8 < answer.bytes_per_s < 1e12


def test_without_torch_a_gpu_is_not_calibrated(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EngineMissingError) as caught:
        calibrated("cuda")
    assert str(caught.value) == f"calibrating a GPU needs torch, and {sys.executable} lacks it"


@pytest.mark.skipif(torch.cuda.is_available(), reason="this torch sees a GPU")
def test_a_torch_that_sees_no_gpu_calibrates_none():
    with pytest.raises(EngineMissingError) as caught:
        calibrated("rocm")
    assert str(caught.value) == f"calibrating a GPU needs a torch that sees it; torch {torch.__version__} does not"


def test_on_a_gpu_several_launches_are_waited_for_at_once(monkeypatch):
    """The calls of the real torch, on the CPU: the card is pretended where torch would look for it."""
    waited = []
    monkeypatch.setattr(calibrate, "GPU_ROWS", 64)
    monkeypatch.setattr(torch, "device", lambda kind, index: (kind, index) == ("cuda", 0) and "cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", waited.append)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(total_memory=2**20))
    monkeypatch.setattr(calibrate, "median_s", lambda call: call() or 0.5)
    answer = calibrated("cuda")
    assert waited == ["cpu", "cpu"]
    assert answer == Calibration(
        flops_per_s=8 * 2 * 64**3 / 0.5,
        bytes_per_s=8 * 2 * 2**16 / 0.5,
        dtype="float16",
        by=f"torch {torch.__version__}",
    )


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_is_calibrated_in_half_precision():
    answer = calibrated("cuda")
    assert answer.dtype == "float16"
    assert answer.flops_per_s > 1e12
    assert answer.bytes_per_s > 1e10


def test_a_call_is_timed_once_the_device_is_warm(monkeypatch):
    now = [0.0]
    times = iter([0.05, 0.06, *[0.07] * 2, 0.09])

    def call():
        now[0] += next(times)

    monkeypatch.setattr(calibrate, "monotonic_s", lambda: now[0])
    assert calibrate.median_s(call) == pytest.approx(0.07)
    assert next(times, None) is None
