"""Where a component is computed in float64."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import tiny_model

from pytest_sdperf.builds.exact import _device
from pytest_sdperf.builds.execution.device_lock import DeviceLock
from pytest_sdperf.core.device import Device
from pytest_sdperf.core.values import Workload
from pytest_sdperf.tasks import TaskContext, exact

CARD = Device("cuda", "NVIDIA T4", "t4", uuid="GPU-0")


def gpu(folder):
    return SimpleNamespace(device=CARD, turns=DeviceLock(CARD, folder, run="mine", say=lambda text: None))


def test_without_a_gpu_it_is_the_cpu():
    with _device(None, "unet of tiny in float64") as found:
        assert found == ("cpu", {})


def test_a_gpu_is_kept_from_others_meanwhile_and_is_not_waited_for(tmp_path):
    with _device(gpu(tmp_path), "unet of tiny in float64") as found:
        assert found == ("cuda", {"CUDA_VISIBLE_DEVICES": "GPU-0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"})
        with _device(gpu(tmp_path), "another") as other:
            assert other == ("cpu", {})
    with gpu(tmp_path).turns.alone("a measurement"), _device(gpu(tmp_path), "another") as other:
        assert other == ("cpu", {})


@pytest.fixture
def compute(tmp_path):
    """Compute the tiny module with drawn weights on a device."""
    catalog = tiny_model.make_catalog()
    model, weights = catalog.models.get("tiny"), tmp_path / "weights.safetensors"
    model.draw_weights("unet", weights)

    def run(name, **request):
        folder = tmp_path / name
        folder.mkdir()
        context = TaskContext(folder, catalog, None, lambda text: None)
        workload = Workload(2, 128, 192, steps=0, scheduler="")
        found = exact.run(exact.ComputeExactly("tiny", "unet", workload, weights=weights, **request), context)
        return found, folder / exact.FILE

    return run


def test_where_a_gpu_fails_the_cpu_computes(compute):
    (found, path), (expected, other) = compute("gpu", device="meta"), compute("cpu")
    assert found == expected == exact.ExactOutputs()
    np.testing.assert_array_equal(np.load(path)["out_sample"], np.load(other)["out_sample"])


def test_lack_of_memory_is_no_answer(compute, monkeypatch):
    def full(*_, **__):
        raise MemoryError

    monkeypatch.setattr("pytest_sdperf.tracing.exact.of_module", full)
    found, path = compute("full")
    assert found == exact.ExactOutputs("memory ran out")
    assert not path.exists()
