from __future__ import annotations

import sys
from dataclasses import replace

import pynvml
import pytest

from pytest_sdperf.core.device import ClockCommands, Health
from pytest_sdperf.core.errors import DeviceMissingError
from pytest_sdperf.core.machine.gpu_facts import GpuTable, load_gpus
from pytest_sdperf.core.values.remark import Remark
from tests.devices.fake_pynvml import MIB, Card, Mig

A = "GPU-aaaa1111-0000-0000-0000-000000000000"
B = "GPU-bbbb2222-0000-0000-0000-000000000000"
C = "GPU-bbcc3333-0000-0000-0000-000000000000"
NO_SUCH_PID = 4_190_000  # above the default of kernel.pid_max, as host ids seen from a container


def a100(**facts) -> Card:
    return Card("NVIDIA A100-SXM4-40GB", 40_960, **{"uuid": A, **facts})


@pytest.mark.parametrize(
    ("name", "memory_mib", "capability", "expected"),
    [
        ("NVIDIA A100-SXM4-40GB", 40_960, (8, 0), ("a100-sxm4-40gb", "sm_80")),
        ("A100-SXM4-40GB", 40_536, (8, 0), ("a100-sxm4-40gb", "sm_80")),
        ("NVIDIA A100-SXM4-80GB", 81_920, (8, 0), ("a100-sxm4-80gb", "sm_80")),
        ("NVIDIA A100 80GB PCIe", 81_920, (8, 0), ("a100-pcie-80gb", "sm_80")),
        ("NVIDIA H100 80GB HBM3", 81_559, (9, 0), ("h100-sxm5-80gb", "sm_90")),
        ("NVIDIA H200", 143_771, (9, 0), ("h200", "sm_90")),
        ("Tesla T4", 15_360, (7, 5), ("t4", "sm_75")),
        ("Tesla V100-PCIE-16GB", 16_384, (7, 0), ("v100-pcie-16gb", "sm_70")),
        ("NVIDIA GeForce RTX 3060", 12_288, (8, 6), ("rtx-3060-12gb", "sm_86")),
        ("NVIDIA GeForce RTX 4090", 24_564, (8, 9), ("rtx-4090", "sm_89")),
    ],
)
def test_cards_are_known_by_the_names_that_nvml_reports(nvml, name, memory_mib, capability, expected):
    (device,) = nvml(Card(name, memory_mib, capability)).find()

    assert (device.kind, device.name, device.index) == ("cuda", name, 0)
    assert (device.slug, device.machine["arch"]) == expected
    assert device.machine["slug"] == device.slug
    assert device.machine["memory_bytes"] == memory_mib * MIB


def test_machine_keys_hold_what_makes_two_cards_incomparable(nvml):
    (device,) = nvml(a100(mig_mode=0, application_clocks={1: 1095, 2: 1215})).find()

    assert device.uuid == A
    assert device.machine == {
        "slug": "a100-sxm4-40gb",
        "memory_bytes": 40_960 * MIB,
        "power_limit_w": 400.0,
        "partition": "whole",
        "mig": "disabled",
        "locked_clocks": "SM 1095 MHz",
        "driver": "580.159.04",
        "ecc": "on",
        "arch": "sm_80",
        "virtualization": "none",
    }


def test_what_a_card_does_not_support_is_none_and_never_zero(nvml):
    unsupported = frozenset({
        "nvmlDeviceGetApplicationsClock",
        "nvmlDeviceGetClockInfo",
        "nvmlDeviceGetComputeRunningProcesses",
        "nvmlDeviceGetCudaComputeCapability",
        "nvmlDeviceGetCurrentClocksEventReasons",
        "nvmlDeviceGetCurrentClocksThrottleReasons",
        "nvmlDeviceGetEccMode",
        "nvmlDeviceGetEnforcedPowerLimit",
        "nvmlDeviceGetFieldValues",
        "nvmlDeviceGetMemoryInfo",
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetPowerUsage",
        "nvmlDeviceGetTemperature",
        "nvmlDeviceGetViolationStatus",
        "nvmlDeviceGetVirtualizationMode",
    })  # fmt: skip
    probe = nvml(Card("GRID A100-10C", 10_240, uuid=A, unsupported=unsupported))

    (device,) = probe.find()

    known = {key: value for key, value in device.machine.items() if value is not None}
    assert known == {"slug": "grid-a100-10c", "driver": "580.159.04"}
    assert probe.health(device) == Health(
        remarks=(Remark("This machine cannot tell what holds the clocks of the GPU."),)
    )
    assert probe.memory_used_bytes(device) is None


def test_the_librarys_mark_of_not_available_is_none(nvml):
    clocks = {pynvml.NVML_CLOCK_SM: 2**32 - 1, pynvml.NVML_CLOCK_MEM: 2**32 - 1}
    probe = nvml(a100(power_limit_mw=2**32 - 1, power_mw=2**32 - 1, temperature=2**32 - 1, clocks=clocks))

    (device,) = probe.find()
    health = probe.health(device)

    assert device.machine["power_limit_w"] is None
    assert (health.power_w, health.temperature_c) == (None, None)
    assert (health.sm_clock_mhz, health.memory_clock_mhz) == (None, None)


def test_health_reads_the_card(nvml):
    card = a100(used_mib=1200, counters_ns={pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN: 2_500_000_000})
    probe = nvml(card)

    assert probe.health(probe.find()[0]) == Health(
        sm_clock_mhz=1410,
        memory_clock_mhz=1215,
        temperature_c=34,
        power_w=68.5,
        other_processes=0,
        memory_used_bytes=1200 * MIB,
        throttled={"hardware thermal slowdown": 2.5},
    )


def test_energy_is_what_the_card_has_taken_since_its_driver_started(nvml):
    new = nvml(a100())
    assert new.energy_j(new.find()[0]) == 1250.5
    old = nvml(a100(unsupported=frozenset({"nvmlDeviceGetTotalEnergyConsumption"})))
    assert old.energy_j(old.find()[0]) is None
    lost = nvml(a100(lost=True))
    assert lost.energy_j(new.find()[0]) is None


def test_memory_is_read_without_the_drivers_reservation_where_the_driver_tells_it(nvml):
    new = nvml(a100(used_mib=100))
    assert new.memory_used_bytes(new.find()[0]) == 100 * MIB
    old = nvml(a100(used_mib=100, unsupported=frozenset({"nvmlDeviceGetMemoryInfo_v2"})))
    assert old.memory_used_bytes(old.find()[0]) == 600 * MIB


@pytest.mark.parametrize(
    ("bit", "reason"),
    [
        (0x08, "The GPU is slowed down: hardware slowdown (clocks event reason 0x8)."),
        (0x20, "The GPU is slowed down: software thermal slowdown (clocks event reason 0x20)."),
        (0x40, "The GPU is slowed down: hardware thermal slowdown (clocks event reason 0x40)."),
        (0x80, "The GPU is slowed down: hardware power brake (clocks event reason 0x80)."),
    ],
)
def test_slowdowns_are_reasons(nvml, bit, reason):
    probe = nvml(a100(reasons=bit))
    health = probe.health(probe.find()[0])
    assert (health.reasons, health.remarks) == ((reason,), ())


@pytest.mark.parametrize("bit", [0x0, 0x1, 0x10, 0x100])
def test_idle_and_synchronised_clocks_are_not_worth_a_word(nvml, bit):
    probe = nvml(a100(reasons=bit))
    health = probe.health(probe.find()[0])
    assert (health.reasons, health.remarks) == ((), ())


def test_the_power_cap_is_recorded(nvml):
    probe = nvml(a100(reasons=0x4))
    health = probe.health(probe.find()[0])
    assert health.reasons == ()
    assert health.remarks == (Remark("The clocks are held by: software power cap (clocks event reason 0x4)."),)


@pytest.mark.parametrize(("name", "memory_mib"), [("Tesla T4", 15_360), ("NVIDIA L4", 23_034)])
def test_a_card_that_lives_at_its_power_cap_is_fit(nvml, name, memory_mib):
    counters = {pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP: 60_000_000_000}
    probe = nvml(Card(name, memory_mib, reasons=0x5, counters_ns=counters))
    health = probe.health(probe.find()[0])
    assert health.reasons == ()
    assert health.remarks == (
        Remark(
            "The clocks are held by: software power cap (clocks event reason 0x4, normal for this card).", usual=True
        ),
    )
    assert (health.throttled, health.capped) == ({}, {"software power cap": 60.0})


def test_any_reason_can_be_normal_for_a_card(nvml):
    t4 = next(gpu for gpu in load_gpus().gpus if gpu.slug == "t4")
    passive = GpuTable((replace(t4, normal_throttle=("software thermal slowdown",)),))
    counters = {pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN: 10**9}
    probe = nvml(Card("Tesla T4", 15_360, reasons=0x20, counters_ns=counters), gpus=passive)
    health = probe.health(probe.find()[0])
    assert health.reasons == ()
    assert health.remarks == (
        Remark(
            "The clocks are held by: software thermal slowdown (clocks event reason 0x20, normal for this card).",
            usual=True,
        ),
    )
    assert (health.throttled, health.capped) == ({}, {"software thermal slowdown": 1.0})


def test_old_drivers_answer_under_the_old_name(nvml):
    probe = nvml(a100(reasons=0x40, unsupported=frozenset({"nvmlDeviceGetCurrentClocksEventReasons"})))
    assert probe.health(probe.find()[0]).reasons == (
        "The GPU is slowed down: hardware thermal slowdown (clocks event reason 0x40).",
    )


def test_old_drivers_count_thermal_throttling_only(nvml):
    probe = nvml(a100(violation_ns=3_000_000_000))
    assert probe.health(probe.find()[0]).throttled == {"thermal slowdown": 3.0}


def test_a_binding_without_a_function_is_survived(nvml):
    probe = nvml(a100())
    (device,) = probe.find()
    for name in ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetFieldValues", "nvmlMemory_v2"):
        delattr(sys.modules["pynvml"], name)
    health = probe.health(device)
    assert health.memory_used_bytes == 504 * MIB
    assert health.reasons == ()


def test_names_may_be_bytes(nvml):
    (device,) = nvml(Card(b"NVIDIA H200", 143_771, uuid=A), driver=b"535.1").find()  # type: ignore[arg-type]
    assert (device.name, device.slug, device.machine["driver"]) == ("NVIDIA H200", "h200", "535.1")


# ------------------------------------------------------------------------------------------- no driver, lost cards


def message(probe) -> str:
    with pytest.raises(DeviceMissingError) as raised:
        probe.find()
    return str(raised.value)


def test_no_driver(nvml):
    assert message(nvml(start=pynvml.NVMLError_LibraryNotFound)) == (
        "no NVIDIA driver is installed, or it is hidden from this container (NVMLError_LibraryNotFound). "
        "Install the driver, or start the container with --gpus all."
    )


def test_driver_not_loaded(nvml):
    assert message(nvml(start=pynvml.NVMLError_DriverNotLoaded)) == (
        "the NVIDIA driver is installed but its kernel module is not loaded (NVMLError_DriverNotLoaded). "
        "Type: sudo modprobe nvidia"
    )


def test_driver_updated_without_a_reboot(nvml):
    assert message(nvml(start=pynvml.NVMLError_LibRmVersionMismatch)) == (
        "the NVIDIA driver was updated and the old kernel module still runs (NVMLError_LibRmVersionMismatch). Reboot."
    )


def test_no_permission(nvml):
    assert message(nvml(start=pynvml.NVMLError_NoPermission)) == (
        "this user may not open the NVIDIA devices (NVMLError_NoPermission). Check the rights of /dev/nvidia*."
    )


def test_another_start_error(nvml):
    assert message(nvml(start=pynvml.NVMLError_Timeout)) == "NVML does not start (NVMLError_Timeout: Timeout)."


def test_nvidia_ml_py_not_installed(nvml, monkeypatch):
    probe = nvml()
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert message(probe) == "the package nvidia-ml-py is not installed. Type: pip install nvidia-ml-py"


def test_no_card_left(nvml):
    expected = (
        "the NVIDIA driver runs but reports no usable GPU. Type: nvidia-smi -L "
        "(a card in MIG mode needs MIG devices: sudo nvidia-smi mig -cgi ... -C)."
    )
    assert message(nvml()) == expected
    assert message(nvml(a100(lost=True))) == expected
    assert message(nvml(a100(mig_mode=1))) == expected


def test_a_lost_card_hides_only_itself(nvml):
    devices = nvml(a100(lost=True), a100(uuid=B)).find()
    assert [device.uuid for device in devices] == [B]


def test_health_of_a_card_that_is_lost_meanwhile(nvml):
    card = a100()
    probe = nvml(card)
    (device,) = probe.find()
    card.lost = True
    assert probe.health(device).reasons == ("NVML does not answer for this GPU; it may have fallen off the bus.",)
    assert probe.memory_used_bytes(device) is None


def test_health_without_a_driver_does_not_raise(nvml):
    (device,) = nvml(a100()).find()
    broken = nvml(start=pynvml.NVMLError_DriverNotLoaded)
    assert broken.health(device).reasons == ("NVML does not answer for this GPU; it may have fallen off the bus.",)
    assert broken.memory_used_bytes(device) is None


# ------------------------------------------------------------------------------------------------ visible devices


def three(**facts) -> tuple[Card, ...]:
    """Three cards that NVML happens to list out of bus order."""
    return (
        a100(uuid=B, bus_id="00000000:41:00.0", **facts),
        a100(uuid=C, bus_id="00000000:81:00.0", **facts),
        a100(uuid=A, bus_id="00000000:01:00.0", **facts),
    )


@pytest.mark.parametrize(
    ("value", "uuids"),
    [
        (None, [A, B, C]),
        ("0", [A]),
        ("2,0", [C, A]),
        ("1,-1,0", [B]),
        ("0,7,1", [A]),
        (A, [A]),
        ("GPU-bbcc,GPU-aaaa", [C, A]),
        ("GPU-aaaa,GPU-bb,GPU-bbcc", [A]),
    ],
)
def test_cuda_visible_devices_is_mapped_by_uuid(nvml, value, uuids):
    environ = {} if value is None else {"CUDA_VISIBLE_DEVICES": value}
    devices = nvml(*three(), environ=environ).find()
    assert [device.uuid for device in devices] == uuids
    assert [device.index for device in devices] == list(range(len(uuids)))


@pytest.mark.parametrize("value", ["", "-1", "NoDevFiles", "0,0", "GPU-ffff", "GPU-bb", "9"])
def test_a_value_that_hides_everything_is_named(nvml, value):
    assert message(nvml(a100(uuid=B), a100(uuid=C), environ={"CUDA_VISIBLE_DEVICES": value})) == (
        f"CUDA_VISIBLE_DEVICES={value!r} hides all of: NVIDIA A100-SXM4-40GB, NVIDIA A100-SXM4-40GB. "
        "Unset it, or name one of these by position or UUID (nvidia-smi -L)."
    )


def test_positions_among_different_cards_are_ambiguous_unless_the_order_is_said(nvml):
    t4 = Card("Tesla T4", 15_360, uuid=B, bus_id="00000000:00:1e.0")
    environ = {"CUDA_VISIBLE_DEVICES": "0"}
    assert message(nvml(a100(), t4, environ=environ)) == (
        "CUDA_VISIBLE_DEVICES='0' is ambiguous: this machine has different cards (NVIDIA A100-SXM4-40GB, Tesla T4), "
        "and CUDA numbers the fastest first. Name them by UUID (nvidia-smi -L), or type: "
        "export CUDA_DEVICE_ORDER=PCI_BUS_ID"
    )
    (device,) = nvml(a100(), t4, environ={**environ, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}).find()
    assert device.uuid == B
    (device,) = nvml(a100(), t4, environ={"CUDA_VISIBLE_DEVICES": A}).find()
    assert device.uuid == A


# ------------------------------------------------------------------------------------------------------------- MIG

MIG_0 = "MIG-11111111-0000-0000-0000-000000000000"
MIG_1 = "MIG-22222222-0000-0000-0000-000000000000"


def split(**facts) -> Card:
    parts = (Mig("1g.5gb", MIG_0, 4_864, 7), Mig("3g.20gb", MIG_1, 20_096, 1, named=False))
    return a100(**{"mig_mode": 1, "migs": parts, **facts})


def test_a_mig_device_is_a_device_of_its_own(nvml):
    first, second = nvml(split()).find()

    assert (first.name, first.slug) == ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "a100-sxm4-40gb-mig-1g-5gb")
    assert (first.uuid, first.machine["partition"], first.machine["mig"]) == (MIG_0, "1g.5gb", "enabled")
    assert first.machine["memory_bytes"] == 4_864 * MIB
    assert first.machine["power_limit_w"] == 400.0
    assert (second.slug, second.index, second.uuid) == ("a100-sxm4-40gb-mig-3g-20gb", 1, MIG_1)


def test_a_mig_device_has_the_clocks_of_its_card_and_the_memory_of_its_own(nvml):
    probe = nvml(split(reasons=0x40, used_mib=30_000))
    health = probe.health(probe.find()[0])
    assert (health.sm_clock_mhz, health.temperature_c, health.power_w) == (1410, 34, 68.5)
    assert health.memory_used_bytes == 12 * MIB
    assert probe.energy_j(probe.find()[0]) is None  # the counter is that of the card, which others use too
    assert health.reasons == ("The GPU is slowed down: hardware thermal slowdown (clocks event reason 0x40).",)


@pytest.mark.parametrize(
    ("value", "uuids"),
    [
        (None, [MIG_0, MIG_1, B]),
        (MIG_1, [MIG_1]),
        ("MIG-2222", [MIG_1]),
        (f"MIG-{A}/1/0", [MIG_1]),
        ("0", [MIG_0]),
        ("1,0", [B, MIG_0]),
        ("2", None),
        (A, [MIG_0]),
    ],
)
def test_mig_devices_are_visible_as_cuda_shows_them(nvml, value, uuids):
    environ = {} if value is None else {"CUDA_VISIBLE_DEVICES": value}
    probe = nvml(split(), a100(uuid=B, bus_id="00000000:02:00.0", mig_mode=0), environ=environ)
    if uuids is None:
        assert message(probe).startswith("CUDA_VISIBLE_DEVICES='2' hides all of: ")
    else:
        assert [device.uuid for device in probe.find()] == uuids


# --------------------------------------------------------------------------------------------------- other programs


def test_other_processes_are_counted_though_their_ids_mean_nothing_here(nvml):
    probe = nvml(a100(pids=(NO_SUCH_PID, NO_SUCH_PID + 1)))
    assert probe.health(probe.find()[0]).other_processes == 2


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells who holds the device open")
def test_memory_in_use_without_a_process_of_ours_is_a_reason(nvml):
    probe = nvml(a100(used_mib=9_216))
    assert probe.health(probe.find()[0]).reasons == (
        "9.0 of 40.0 GiB of device memory are in use although no process of this run uses the device.",
    )


def test_nvml_is_started_once(nvml):
    probe = nvml(a100())
    (device,) = probe.find()
    probe.find()
    probe.health(device)
    probe.memory_used_bytes(device)
    library = sys.modules["pynvml"]
    assert library.inits == 1
    assert library.calls.count("nvmlDeviceGetHandleByUUID") == 1


def test_an_owner_is_told_how_to_hold_the_clocks_below_what_a_power_cap_forces(nvml):
    probe = nvml(a100(), Card("NVIDIA H200", 143_771, (9, 0), uuid=B, max_clocks={1: 1980}))
    assert [probe.clock_commands(device) for device in probe.find()] == [
        ClockCommands(f"sudo nvidia-smi -i {A} -lgc 1050,1050", f"sudo nvidia-smi -i {A} -rgc"),
        ClockCommands(f"sudo nvidia-smi -i {B} -lgc 1485,1485", f"sudo nvidia-smi -i {B} -rgc"),
    ]


def test_clocks_of_others_or_unknown_ones_are_left_alone(nvml):
    part = Mig("1g.5gb", "MIG-1", 4_864, 7)
    probe = nvml(a100(mig_mode=1, migs=(part,)))
    assert [probe.clock_commands(device) for device in probe.find()] == [None]
    probe = nvml(a100(virtualization=pynvml.NVML_GPU_VIRTUALIZATION_MODE_VGPU))
    assert [probe.clock_commands(device) for device in probe.find()] == [None]
    probe = nvml(a100(unsupported=frozenset({"nvmlDeviceGetMaxClockInfo"})))
    assert [probe.clock_commands(device) for device in probe.find()] == [None]
    (device,) = nvml(a100()).find()
    assert nvml(Card("NVIDIA H200", 143_771, uuid=B)).clock_commands(device) is None
