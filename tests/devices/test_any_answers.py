"""Whatever a vendor's library answers: a device with what could be told, or a sentence that says why there is none."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
import types
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_sdperf.core.device import Health
from pytest_sdperf.core.errors import DeviceMissingError
from pytest_sdperf.core.machine.health import readings, remarks, unfit
from pytest_sdperf.devices.amdsmi import AmdsmiProbe
from pytest_sdperf.devices.nvml import NvmlProbe
from tests.devices import fake_amdsmi, fake_pynvml
from tests.devices.fake_amdsmi import FakeAmdsmi
from tests.devices.fake_pynvml import FakeNvml, Mig

MISSING, RAISES = "the library has no such function", "it raises"
NVML_CARDS = (
    fake_pynvml.Card("NVIDIA A100-SXM4-40GB", 40_960, uuid="GPU-aaaa"),
    fake_pynvml.Card("NVIDIA H100", 81_920, uuid="GPU-b", mig_mode=1, migs=(Mig("1g.10gb", "MIG-1", 9_728, 3),)),
)
AMD_CARDS = (fake_amdsmi.Card("AMD Instinct MI300X OAM", 196_592, "gfx942", hip_uuid="GPU-a", violation={}),)
NVML = sorted(name for name in vars(FakeNvml(*NVML_CARDS)) if name.startswith(("nvmlDevice", "NVML_CLOCK")))
AMD = sorted(name for name in vars(FakeAmdsmi(*AMD_CARDS)) if name.startswith("amdsmi_"))
FIELDS = ("pid", "total", "used", "busId", "violationTime", "nvmlReturn", "fieldId", "valueType", "value")
KEYS = ("pid", "hip_id", "market_name", "power_cap", "clk", "max_clk", "clk_locked", "mode", "acc_ppt_pwr", "vram_used")
KEYS += ("energy_accumulator", "counter_resolution")
PLAIN = st.sampled_from(
    [None, True, -1, 0, 1, 2**31, 2**32 - 1, 2**64 - 1, 10**400, 1.5, math.nan, "", "N/A", "a b", b"\xff", b"A100"]
)
ANSWERS = st.recursive(
    PLAIN,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.dictionaries(st.sampled_from(KEYS), inner, max_size=3),
        st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4).map(lambda told: types.SimpleNamespace(**told)),
    ),
    max_leaves=4,
)
FUZZ = settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def changed(names: list[str]) -> st.SearchStrategy[dict[str, Any]]:
    """Draw what becomes of some functions of a library."""
    return st.dictionaries(st.sampled_from(names), st.sampled_from([MISSING, RAISES]) | ANSWERS, max_size=8)


def spoil(library: types.ModuleType, answers: dict[str, Any]) -> types.ModuleType:
    for name, answer in answers.items():
        if answer is MISSING:
            del library.__dict__[name]
        elif name.startswith("NVML_"):
            library.__dict__[name] = answer
        else:
            library.__dict__[name] = _always(answer)
    return library


def _always(answer: Any) -> Any:
    def call(*_arguments: Any) -> Any:
        if answer is RAISES:
            raise OSError("no such device")
        return answer

    return call


def look(probe: NvmlProbe | AmdsmiProbe) -> None:
    """Ask for everything that a run asks for, and see that it can be told and stored."""
    try:
        devices = probe.find()
    except DeviceMissingError:
        return
    for device in devices:
        json.dumps(dict(device.machine), allow_nan=False)
        assert all(value is None or isinstance(value, (str, int, float)) for value in device.machine.values())
        health = probe.health(device)
        for field in dataclasses.fields(Health):
            value = getattr(health, field.name)
            assert not isinstance(value, (int, float)) or 0 <= value < math.inf, field.name
        json.dumps(readings(before=health), allow_nan=False)
        assert all(isinstance(text, str) for text in unfit(health, health, device))
        assert all(isinstance(one.text, str) for one in remarks(health, health, device))
        used = probe.memory_used_bytes(device)
        assert used is None or used >= 0
        joules = probe.energy_j(device)
        assert joules is None or 0 <= joules < math.inf
        probe.clock_commands(device)


@FUZZ
@given(changed(NVML))
def test_whatever_nvml_answers(monkeypatch, answers):
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "pynvml", spoil(FakeNvml(*NVML_CARDS), answers))
        look(NvmlProbe({}))


@FUZZ
@given(changed(AMD))
def test_whatever_amdsmi_answers(monkeypatch, answers):
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "amdsmi", spoil(FakeAmdsmi(*AMD_CARDS), answers))
        look(AmdsmiProbe({}))


@pytest.mark.parametrize("pids", [(0,), (4294967295,), (0, 4294967295)])
def test_ids_that_no_process_has_do_not_make_the_machine_unfit(nvml, pids):
    probe = nvml(dataclasses.replace(NVML_CARDS[0], pids=pids))
    (device,) = probe.find()
    health = probe.health(device)
    assert health.other_processes is None
    assert unfit(health, health, device) == ()
    told = [remark.text for remark in remarks(health, health, device)]
    assert "This machine cannot tell whether other processes use the GPU." in told
