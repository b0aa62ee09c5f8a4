"""What the probe says of a real card, against nvidia-smi. Skipped where there is none."""

from __future__ import annotations

import shutil
import subprocess
import time

import pytest

from pytest_sdperf.core.errors import DeviceMissingError
from pytest_sdperf.core.machine.gpu_facts import load_gpus
from pytest_sdperf.devices.nvml import NvmlProbe

MIB = 2**20


@pytest.fixture
def probe():
    probe = NvmlProbe()
    if shutil.which("nvidia-smi") is None:
        pytest.skip("nvidia-smi is not installed")
    try:
        devices = probe.find()
    except DeviceMissingError as error:
        pytest.skip(str(error))
    if any(device.machine["mig"] == "enabled" for device in devices):
        pytest.skip("nvidia-smi lists cards, not MIG devices")
    return probe


def smi(uuid: str, *fields: str) -> list[str]:
    command = ["nvidia-smi", f"--id={uuid}", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip().split(", ")


def test_identity_is_that_of_nvidia_smi(probe):
    for device in probe.find():
        name, memory, driver, limit, capability = smi(
            device.uuid, "name", "memory.total", "driver_version", "enforced.power.limit", "compute_cap"
        )
        assert device.name == name
        assert device.machine["memory_bytes"] == int(memory) * MIB
        assert device.machine["driver"] == driver
        assert device.machine["arch"] == f"sm_{capability.replace('.', '')}"
        if limit.replace(".", "").isdigit():
            assert device.machine["power_limit_w"] == pytest.approx(float(limit), abs=0.01)


def test_the_arch_of_a_known_card_is_the_tables(probe):
    for device in probe.find():
        facts = load_gpus().facts(device.slug)
        assert facts is None or facts.arch == device.machine["arch"]


def test_health_is_plausible(probe):
    for device in probe.find():
        health = probe.health(device)
        temperature, used = smi(device.uuid, "temperature.gpu", "memory.used")
        assert health.temperature_c is None or abs(health.temperature_c - float(temperature)) < 15
        assert health.power_w is None or 1 < health.power_w < 2500
        assert health.sm_clock_mhz is None or 100 <= health.sm_clock_mhz <= 4000
        assert health.memory_used_bytes is not None
        assert abs(health.memory_used_bytes - int(used) * MIB) < 2048 * MIB
        assert all(0 <= seconds < 10**9 for seconds in [*health.throttled.values(), *health.capped.values()])


def test_reading_memory_is_cheap_enough_to_be_done_every_few_milliseconds(probe):
    (device, *_) = probe.find()
    probe.memory_used_bytes(device)
    start_s = time.perf_counter()
    readings = [probe.memory_used_bytes(device) for _ in range(100)]
    assert time.perf_counter() - start_s < 0.5  # 5 ms each, on a busy machine
    assert None not in readings


def test_energy_grows_by_the_power_that_the_card_tells(probe):
    for device in probe.find():
        before, begin_s = probe.energy_j(device), time.monotonic()
        if before is None:
            continue
        time.sleep(2.0)
        after, power_w = probe.energy_j(device), probe.health(device).power_w
        watts = (after - before) / (time.monotonic() - begin_s)
        assert power_w is None or 1 / 3 < watts / power_w < 3
