from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from pytest_sdperf.core.device import ClockCommands, Health
from pytest_sdperf.core.errors import DeviceMissingError
from pytest_sdperf.core.values.remark import Remark
from tests.devices.fake_amdsmi import (
    DRIVER_NOT_LOADED,
    MAX_UINT32,
    MAX_UINT64,
    MIB,
    NO_PERM,
    AmdSmiVirtualizationMode,
    Card,
)

NO_SUCH_PID = 4_190_000


def mi300x(serial: str = "0x00A1B2C3D4E5F607", **facts) -> Card:
    partitions = {"compute_partition": "SPX", "memory_partition": "NPS1"}
    facts = {"memory_mib": 196_592, **partitions, **facts}
    return Card("AMD Instinct MI300X OAM", graphics_version="gfx942", serial=serial, **facts)


def message(probe) -> str:
    with pytest.raises(DeviceMissingError) as raised:
        probe.find()
    return str(raised.value)


@pytest.mark.parametrize(
    ("name", "memory_mib", "arch", "slug"),
    [
        ("AMD Instinct MI100", 32_752, "gfx908", "mi100"),
        ("AMD Instinct MI210", 65_520, "gfx90a", "mi210"),
        ("AMD Instinct MI250X", 65_520, "gfx90a", "mi250x"),
        ("AMD Instinct MI250X / MI250", 65_520, "gfx90a", "mi250x"),
        ("AMD Instinct MI300X", 196_592, "gfx942", "mi300x"),
        ("AMD Instinct MI300X OAM", 196_592, "gfx942", "mi300x"),
        ("AMD Instinct MI300X OAM: 750W SKU", 196_592, "gfx942", "mi300x"),
        ("AMD Instinct MI300X VF", 196_288, "gfx942", "mi300x"),
        ("AMD Instinct MI325X", 262_128, "gfx942", "mi325x"),
        ("AMD Instinct MI355X", 294_896, "gfx950", "mi355x"),
        ("AMD Radeon RX 7900 XTX", 24_560, "gfx1100", "rx-7900-xtx-24gb"),
    ],
)
def test_cards_are_known_by_the_names_that_amdsmi_reports(amdsmi, name, memory_mib, arch, slug):
    (device,) = amdsmi(Card(name, memory_mib, f"{arch}:sramecc+:xnack-", device_id="0x0")).find()

    assert (device.kind, device.name, device.slug) == ("rocm", name, slug)
    assert device.machine["arch"] == arch
    assert device.machine["memory_bytes"] == memory_mib * MIB


@pytest.mark.parametrize(
    ("market", "product", "name"),
    [
        ("N/A", "AMD Instinct MI300X OAM", "AMD Instinct MI300X OAM"),
        ("0x74a1", "N/A", "AMD GPU"),
        ("", "", "AMD GPU"),
    ],
)
def test_a_card_without_a_market_name_is_known_by_its_board_or_its_pci_id(amdsmi, market, product, name):
    (device,) = amdsmi(Card(market, 196_592, "gfx942", device_id="0x74a1", product_name=product)).find()
    assert (device.name, device.slug) == (name, "mi300x")


def test_machine_keys_hold_what_makes_two_cards_incomparable(amdsmi):
    (device,) = amdsmi(mi300x()).find()

    assert device.uuid == "GPU-00a1b2c3d4e5f607"
    assert device.machine == {
        "slug": "mi300x",
        "memory_bytes": 196_592 * MIB,
        "power_limit_w": 750.0,
        "partition": "SPX/NPS1",
        "mig": None,
        "locked_clocks": "default",
        "driver": "6.14.14",
        "ecc": None,
        "arch": "gfx942",
        "virtualization": "baremetal",
    }


def test_health_reads_the_card(amdsmi, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0, raising=False)
    violation = {
        "acc_counter": 100_000,
        "acc_prochot_thrm": 0,
        "acc_ppt_pwr": 4_000,
        "acc_socket_thrm": 12,
        "acc_vr_thrm": MAX_UINT64,
        "acc_hbm_thrm": "N/A",
        "active_prochot_thrm": False,
        "active_ppt_pwr": True,
        "active_socket_thrm": True,
        "active_vr_thrm": "N/A",
    }
    probe = amdsmi(mi300x(violation=violation))

    assert probe.health(probe.find()[0]) == Health(
        reasons=("The GPU is slowed down: socket thermal limit.",),
        remarks=(Remark("The clocks are held by: package power limit."),),
        sm_clock_mhz=132,
        memory_clock_mhz=900,
        temperature_c=41.0,
        power_w=142.0,
        other_processes=0,
        memory_used_bytes=283 * MIB,
        throttled={"processor hot": 0.0, "socket thermal limit": 12.0},
        capped={"package power limit": 4_000.0},
        counter_unit="firmware samples",
    )


def test_what_the_driver_cannot_tell_is_none_and_never_zero(amdsmi):
    not_available = {"clk": MAX_UINT32, "min_clk": "N/A", "max_clk": "N/A", "clk_locked": "N/A"}
    unsupported = frozenset({
        "amdsmi_get_gpu_compute_partition",
        "amdsmi_get_gpu_driver_info",
        "amdsmi_get_gpu_memory_partition",
        "amdsmi_get_gpu_memory_total",
        "amdsmi_get_gpu_memory_usage",
        "amdsmi_get_gpu_process_list",
        "amdsmi_get_gpu_virtualization_mode",
        "amdsmi_get_gpu_vram_usage",
        "amdsmi_get_power_cap_info",
        "amdsmi_get_power_info",
    })  # fmt: skip
    card = mi300x(gfx_clock=not_available, mem_clock=not_available, temperatures={}, unsupported=unsupported)
    probe = amdsmi(card)

    (device,) = probe.find()

    known = {key: value for key, value in device.machine.items() if value is not None}
    assert known == {"slug": "mi300x", "arch": "gfx942"}
    remarks = (Remark("This machine cannot tell what holds the clocks of the GPU."),)
    assert probe.health(device) == Health(remarks=remarks, counter_unit="firmware samples")
    assert probe.memory_used_bytes(device) is None


def test_a_virtual_function_reports_zero_where_it_means_nothing(amdsmi):
    nothing = {"clk": 0, "min_clk": 0, "max_clk": 0, "clk_locked": "N/A"}
    card = Card(
        "AMD Instinct MI300X VF",
        196_288,
        "gfx942",
        device_id="0x74b5",
        virtualization=AmdSmiVirtualizationMode.GUEST,
        power_cap=0,
        current_power="N/A",
        average_power=0xFFFF,
        socket_power=0,
        gfx_clock=nothing,
        mem_clock=nothing,
        temperatures={1: 0},
    )
    probe = amdsmi(card)

    (device,) = probe.find()
    health = probe.health(device)

    assert device.slug == "mi300x"
    assert device.machine["virtualization"] == "guest"
    assert device.machine["locked_clocks"] is None
    assert device.machine["power_limit_w"] == 750.0  # from amdsmi_get_power_info, in watts
    assert (health.power_w, health.temperature_c) == (None, None)
    assert (health.sm_clock_mhz, health.memory_clock_mhz) == (None, None)


def test_mi200_reports_average_power_and_older_releases_another_clock_key(amdsmi):
    clock = {"cur_clk": 1700, "min_clk": 500, "max_clk": 1700}
    card = Card("AMD Instinct MI250X", 65_520, "gfx90a", current_power="N/A", average_power=93, gfx_clock=clock)
    probe = amdsmi(card)
    (device,) = probe.find()
    health = probe.health(device)
    assert (health.power_w, health.sm_clock_mhz) == (93.0, 1700)
    assert device.machine["locked_clocks"] is None


@pytest.mark.parametrize(
    ("energy", "joules"),
    [
        ({"energy_accumulator": 2_000_000, "counter_resolution": 15.25}, 30.5),
        ({"power": 2_000_000, "counter_resolution": 15.25}, 30.5),  # as ROCm 6.0 calls it
        ({"energy_accumulator": 0, "counter_resolution": 15.25}, None),
        ({"energy_accumulator": MAX_UINT64, "counter_resolution": 15.25}, None),
        ({"energy_accumulator": 2_000_000, "counter_resolution": "N/A"}, None),
        ({"energy_accumulator": 2_000_000, "counter_resolution": 0.0}, None),
        ({"energy_accumulator": 2_000_000}, None),
    ],
)
def test_energy_is_a_number_of_steps(amdsmi, energy, joules):
    probe = amdsmi(mi300x(energy=energy))
    assert probe.energy_j(probe.find()[0]) == joules


def test_guests_and_parts_of_a_card_tell_no_energy(amdsmi):
    guest = amdsmi(mi300x(unsupported=frozenset({"amdsmi_get_energy_count"})))
    assert guest.energy_j(guest.find()[0]) is None
    part = amdsmi(mi300x(compute_partition="CPX"))
    assert part.energy_j(part.find()[0]) is None


def test_memory_falls_back_to_megabytes(amdsmi):
    unsupported = frozenset({"amdsmi_get_gpu_memory_total", "amdsmi_get_gpu_memory_usage"})
    probe = amdsmi(mi300x(unsupported=unsupported, used_mib=0))
    (device,) = probe.find()
    assert device.machine["memory_bytes"] == 196_592 * MIB
    assert probe.memory_used_bytes(device) == 0


def test_locked_clocks_are_a_machine_key(amdsmi):
    (device,) = amdsmi(mi300x(gfx_clock={"clk": 1500, "clk_locked": True})).find()
    assert device.machine["locked_clocks"] == "GFX locked"


def test_other_processes(amdsmi, monkeypatch):
    process = {"name": "python3", "pid": NO_SUCH_PID, "mem": 4096}
    probe = amdsmi(mi300x(processes=[process]))
    assert probe.health(probe.find()[0]).other_processes == 1

    monkeypatch.setattr(os, "geteuid", lambda: 1000, raising=False)
    probe = amdsmi(mi300x())
    assert probe.health(probe.find()[0]).other_processes is None  # without root one sees one's own processes only


def test_memory_in_use_without_a_process_of_ours_is_a_reason(amdsmi):
    probe = amdsmi(mi300x(used_mib=100 * 1024))
    assert probe.health(probe.find()[0]).reasons == (
        "100.0 of 192.0 GiB of device memory are in use although no process of this run uses the device.",
    )


# ------------------------------------------------------------------------------------------------- no ROCm, no driver


def test_driver_not_loaded(amdsmi):
    assert message(amdsmi(start=DRIVER_NOT_LOADED)) == (
        "the amdgpu kernel module is not loaded (AMDSMI_STATUS_DRIVER_NOT_LOADED, code 34). Type: sudo modprobe amdgpu"
    )


def test_no_permission(amdsmi):
    assert message(amdsmi(start=NO_PERM)) == (
        "this user may not open the AMD devices (AMDSMI_STATUS_NO_PERM, code 10). "
        "Type: sudo usermod -a -G render,video $USER"
    )


def test_another_start_error(amdsmi):
    assert message(amdsmi(start=15)) == (
        "amdsmi does not start (AmdSmiLibraryException: Error code: 15 | AMDSMI_STATUS_15 - as the library words it)."
    )


def test_no_gpu(amdsmi):
    assert message(amdsmi()) == "the amdgpu driver runs but reports no GPU. Type: amd-smi list"


def test_amdsmi_not_installed(amdsmi, monkeypatch):
    probe = amdsmi()
    monkeypatch.setitem(sys.modules, "amdsmi", None)
    assert message(probe) == (
        "the module amdsmi is not installed. It belongs to ROCm; type: pip install /opt/rocm/share/amd_smi"
    )


LIBRARY_MISSING = (
    "amdsmi cannot load the ROCm library libamd_smi.so (KeyError: 'libamd_smi.so'). Install ROCm, or set ROCM_PATH to "
    "where it is; the module must come from that ROCm: pip install /opt/rocm/share/amd_smi"
)
ASK_IN_A_FRESH_PROCESS = """
from pytest_sdperf.devices.amdsmi import AmdsmiProbe
from pytest_sdperf.core.errors import DeviceMissingError
try:
    print(AmdsmiProbe().find())
except DeviceMissingError as error:
    print(error)
"""


def ask_in_a_fresh_process(**environ: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", ASK_IN_A_FRESH_PROCESS],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **environ},
    )
    return done.stdout


def test_a_module_whose_import_prints_and_raises_key_error(tmp_path):
    lines = 'print("libamd_smi.so: cannot open shared object file")\nprint("Unable to find")\n{}["libamd_smi.so"]\n'
    (tmp_path / "amdsmi.py").write_text(lines, encoding="utf-8")
    assert ask_in_a_fresh_process(PYTHONPATH=str(tmp_path)) == f"{LIBRARY_MISSING}\n"


@pytest.mark.skipif(find_spec("amdsmi") is None, reason="amdsmi is not installed (it comes with the extra `dev`)")
@pytest.mark.skipif(Path("/opt/rocm/lib/libamd_smi.so").exists(), reason="this machine has ROCm")
def test_the_real_amdsmi_without_rocm():
    assert ask_in_a_fresh_process() == f"{LIBRARY_MISSING}\n"


def test_health_without_a_driver_does_not_raise(amdsmi):
    (device,) = amdsmi(mi300x()).find()
    broken = amdsmi(start=DRIVER_NOT_LOADED)
    assert broken.health(device) == Health(reasons=("amdsmi does not answer for this GPU.",))
    assert broken.memory_used_bytes(device) is None


# ----------------------------------------------------------------------------------------------------- visible devices

A, B, C = "0xAAAA000000000001", "0xBBBB000000000002", "0xBBCC000000000003"


def three() -> tuple[Card, ...]:
    """Three cards that amdsmi happens to list out of HIP's order."""
    return mi300x(B, hip_id=1), mi300x(C, hip_id=2), mi300x(A, hip_id=0)


@pytest.mark.parametrize(
    ("environ", "serials"),
    [
        ({}, [A, B, C]),
        ({"HIP_VISIBLE_DEVICES": "2,0"}, [C, A]),
        ({"CUDA_VISIBLE_DEVICES": "1"}, [B]),
        ({"HIP_VISIBLE_DEVICES": "0", "CUDA_VISIBLE_DEVICES": "1"}, [A]),
        ({"ROCR_VISIBLE_DEVICES": "GPU-bbcc,GPU-aaaa"}, [C, A]),
        ({"ROCR_VISIBLE_DEVICES": "1,2", "HIP_VISIBLE_DEVICES": "1"}, [C]),
        ({"ROCR_VISIBLE_DEVICES": "0,GPU-bbcc000000000003", "HIP_VISIBLE_DEVICES": "1,0"}, [C, A]),
    ],
)
def test_visible_devices_are_mapped_by_uuid(amdsmi, environ, serials):
    devices = amdsmi(*three(), environ=environ).find()
    assert [device.uuid for device in devices] == [f"GPU-{serial[2:].lower()}" for serial in serials]
    assert [device.index for device in devices] == list(range(len(serials)))


def test_each_device_has_its_own_health(amdsmi):
    cards = [mi300x(A, hip_id=0, used_mib=1), mi300x(B, hip_id=1, used_mib=2)]
    probe = amdsmi(*cards, environ={"HIP_VISIBLE_DEVICES": "1,0"})
    used = [probe.memory_used_bytes(device) for device in probe.find()]
    assert used == [2 * MIB, 1 * MIB]


def test_without_hip_ids_the_order_is_the_bus(amdsmi):
    devices = amdsmi(
        mi300x(B, hip_id="N/A", bdf="0000:26:00.0"), mi300x(A, hip_id="N/A", bdf="0000:05:00.0")
    ).find()  # fmt: skip
    assert [device.uuid for device in devices] == ["GPU-aaaa000000000001", "GPU-bbbb000000000002"]


def test_hip_uuid_is_preferred(amdsmi):
    (device,) = amdsmi(mi300x(hip_uuid="GPU-2f5e3d1c0b9a8877")).find()
    assert device.uuid == "GPU-2f5e3d1c0b9a8877"


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        ({"HIP_VISIBLE_DEVICES": "-1"}, "HIP_VISIBLE_DEVICES='-1'"),
        ({"CUDA_VISIBLE_DEVICES": ""}, "CUDA_VISIBLE_DEVICES=''"),
        (
            {"ROCR_VISIBLE_DEVICES": "0", "HIP_VISIBLE_DEVICES": "1"},
            "ROCR_VISIBLE_DEVICES='0' with HIP_VISIBLE_DEVICES='1'",
        ),
    ],
)
def test_a_value_that_hides_everything_is_named(amdsmi, environ, told):
    assert message(amdsmi(mi300x(A), mi300x(B, hip_id=1), environ=environ)) == (
        f"{told} hides all of: AMD Instinct MI300X OAM, AMD Instinct MI300X OAM. "
        "Unset it, or name one of these by position or UUID (amd-smi list)."
    )


# ---------------------------------------------------------------------------------------------------------- partitions


def test_a_partition_is_a_device_of_its_own(amdsmi):
    whole = mi300x(A, memory_mib=24_574, compute_partition="CPX", memory_partition="NPS4")
    parts = [replace(whole, hip_id=number) for number in range(2)]
    probe = amdsmi(*parts)

    first, second = probe.find()

    assert (first.slug, first.machine["partition"]) == ("mi300x-cpx-nps4", "CPX/NPS4")
    assert (first.uuid, second.uuid) == ("", "")  # both have the card's: it would pin a worker to both
    assert (first.index, second.index) == (0, 1)
    assert probe.memory_used_bytes(second) == 283 * MIB


def test_an_owner_is_told_how_to_hold_the_clocks(amdsmi):
    probe = amdsmi(mi300x(gfx_clock={"clk": 132, "max_clk": 2100}, bdf="0000:0c:00.0"))
    (device,) = probe.find()
    assert probe.clock_commands(device) == ClockCommands(
        "sudo amd-smi set --gpu 0000:0c:00.0 --perf-determinism 1575",
        "sudo amd-smi reset --gpu 0000:0c:00.0 --perf-determinism",
    )


@pytest.mark.parametrize(
    "facts", [{"gfx_clock": {"clk": 132, "max_clk": "N/A"}}, {"virtualization": AmdSmiVirtualizationMode.GUEST}]
)
def test_where_the_clocks_cannot_be_held_nothing_is_told(amdsmi, facts):
    probe = amdsmi(mi300x(**facts))
    (device,) = probe.find()
    assert probe.clock_commands(device) is None
