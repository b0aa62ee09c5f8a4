from __future__ import annotations

import sys

import pynvml
import pytest

from pytest_sdperf.core.device import Device, DeviceProbe, Health
from pytest_sdperf.core.errors import DeviceMissingError, UnknownNameError
from pytest_sdperf.core.machine.device_choice import choose_device, describe, named_kind, worker_environment
from pytest_sdperf.devices.amdsmi import AmdsmiProbe
from pytest_sdperf.devices.cpu import CpuProbe
from pytest_sdperf.devices.nvml import NvmlProbe
from tests.devices.fake_amdsmi import Card as AmdCard
from tests.devices.fake_amdsmi import FakeAmdsmi
from tests.devices.fake_pynvml import Card, FakeNvml, Mig

HOST_PID = 4_190_000  # no process of this machine
H100 = Card("NVIDIA H100 80GB HBM3", 81_559, (9, 0), uuid="GPU-5c1f0000-0000", bus_id="00000000:01:00.0")
A100_40 = Card("NVIDIA A100-SXM4-40GB", 40_960, uuid="GPU-a1000000-0040", bus_id="00000000:02:00.0")
A100_80 = Card("NVIDIA A100-SXM4-80GB", 81_920, uuid="GPU-a1000000-0080", bus_id="00000000:03:00.0")
SPLIT = Card(
    "NVIDIA A100-SXM4-40GB",
    40_960,
    uuid="GPU-a1000000-ffff",
    bus_id="00000000:04:00.0",
    mig_mode=1,
    migs=(Mig("1g.5gb", "MIG-11110000-0000", 4_864, 7),),
)
MI300X = AmdCard("AMD Instinct MI300X OAM", 196_592, "gfx942")
FAMILIES = (
    "a10, a100, a10g, a800, amd, auto, b200, cpu, cuda, gh200, h100, h20, h200, l4, l40s, mi100, mi210, mi250x, "
    "mi300x, mi325x, mi350x, mi355x, nvidia, quadro-rtx-8000, rocm, rtx-3060, rtx-3080, rtx-3090, rtx-4090, rtx-5090, "
    "t4, v100"
)
HINT = (
    "An exact card (a100-sxm4-40gb), an architecture (gfx942), a position (0) or the start of a UUID (GPU-5c1f) is "
    "understood too."
)
LEAVE_OUT = "Leave the option out to run on the CPU, and with it engines that run on GPUs only."
NO_NVIDIA = (
    "  nvml: no NVIDIA driver is installed, or it is hidden from this container (NVMLError_LibraryNotFound). "
    "Install the driver, or start the container with --gpus all.\n"
)
NO_AMD = "  amdsmi: the module amdsmi is not installed. It belongs to ROCm; type: pip install /opt/rocm/share/amd_smi\n"


@pytest.fixture
def machine(monkeypatch):
    """Return a function that puts these cards into the machine and returns the probes, as the catalog holds them."""

    def install(*cards, amd=(), environ=None) -> dict[str, DeviceProbe]:
        environ = environ or {}
        start = None if cards else pynvml.NVMLError_LibraryNotFound
        monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(*cards, start=start))
        monkeypatch.setitem(sys.modules, "amdsmi", FakeAmdsmi(*amd) if amd else None)
        monkeypatch.setattr("pytest_sdperf.devices._sharing.holds_open", lambda pids, device_file: False)
        return {"nvml": NvmlProbe(environ), "amdsmi": AmdsmiProbe(environ), "cpu": CpuProbe()}

    return install


@pytest.mark.parametrize(
    ("gpu", "slug"),
    [
        ("auto", "h100-sxm5-80gb"),
        ("nvidia", "h100-sxm5-80gb"),
        ("cuda", "h100-sxm5-80gb"),
        ("amd", "mi300x"),
        ("AMD", "mi300x"),
        ("rocm", "mi300x"),
        ("gfx942", "mi300x"),
        ("sm_80", "a100-sxm4-40gb"),
        ("h100", "h100-sxm5-80gb"),
        ("H100", "h100-sxm5-80gb"),
        ("a100", "a100-sxm4-40gb"),
        ("a100-sxm4-80gb", "a100-sxm4-80gb"),
        ("mi300x", "mi300x"),
        ("0", "h100-sxm5-80gb"),
        ("2", "a100-sxm4-80gb"),
        ("4", "mi300x"),
        ("GPU-a1000000-0080", "a100-sxm4-80gb"),
        ("gpu-5C1F", "h100-sxm5-80gb"),
        ("MIG-1111", "a100-sxm4-40gb-mig-1g-5gb"),
        ("a100-sxm4-40gb-mig-1g-5gb", "a100-sxm4-40gb-mig-1g-5gb"),
        ("GPU-00a1b2c3d4e5f607", "mi300x"),
    ],
)
def test_ways_to_name_a_gpu(machine, gpu, slug):
    probes = machine(H100, A100_40, A100_80, SPLIT, amd=(MI300X,))
    assert choose_device(gpu, probes, environ={}).device.slug == slug


def test_a_card_that_no_table_knows_answers_to_its_vendor_and_its_architecture(machine):
    probes = machine(amd=(AmdCard("AMD Radeon AI PRO R9700", 32_624, "gfx1201"),))
    chosen = {choose_device(gpu, probes, environ={}).device.name for gpu in ("auto", "amd", "rocm", "gfx1201")}
    assert chosen == {"AMD Radeon AI PRO R9700"}
    assert "but no device of this machine answers to it" in message("gfx942", probes)


@pytest.mark.parametrize("gpu", ["", "cpu", "CPU", " "])
def test_without_a_gpu_the_cpu_is_taken(machine, gpu):
    assert choose_device(gpu, machine(H100), environ={}).device.kind == "cpu"


def test_of_several_the_first_idle_one_is_taken(machine):
    def card(number, **facts):
        return Card("NVIDIA H200", 143_771, (9, 0), uuid=f"GPU-{number}", bus_id=f"00000000:0{number}:00.0", **facts)

    busy, unknown, full, idle = (
        card(1, pids=(HOST_PID,)),
        card(2, unsupported=frozenset({"nvmlDeviceGetComputeRunningProcesses"})),
        card(3, used_mib=90_000),
        card(4),
    )
    assert choose_device("h200", machine(busy, unknown, full, idle), environ={}).device.uuid == "GPU-4"
    assert choose_device("h200", machine(busy, unknown, full), environ={}).device.uuid == "GPU-2"
    assert choose_device("h200", machine(busy), environ={}).device.uuid == "GPU-1"
    assert choose_device("0", machine(busy, idle), environ={}).device.uuid == "GPU-1"


def test_a_device_of_a_third_party_is_chosen_by_its_slug(machine):
    class AcmeProbe(DeviceProbe):
        name = "acme"
        kind = "cuda"

        def find(self):
            return (Device("cuda", "Acme One", "acme-one"),)

        def health(self, device):
            return Health()

    probes = {"acme": AcmeProbe(), **machine(H100)}
    assert choose_device("acme-one", probes, environ={}).device.name == "Acme One"
    assert (
        choose_device("auto", probes, environ={}).device.name == "NVIDIA H100 80GB HBM3"
    )  # idle; of Acme's it is unknown


# ------------------------------------------------------------------------------------------------------------ missing


def message(gpu, probes, environ=None, error=DeviceMissingError) -> str:
    with pytest.raises(error) as raised:
        choose_device(gpu, probes, environ=environ or {})
    return str(raised.value)


@pytest.mark.parametrize("gpu", ["a100", "a100-sxm4-40gb", "auto", "nvidia", "cuda", "rocm", "gfx90a", "0", "GPU-5c1f"])
def test_no_gpu_at_all(machine, gpu):
    assert message(gpu, machine()) == (
        f"GPU {gpu!r} was asked for, but no device of this machine answers to it.\n{NO_NVIDIA}{NO_AMD}{LEAVE_OUT}"
    )


def test_another_gpu(machine):
    assert message("a100", machine(H100)) == (
        "GPU 'a100' was asked for, but no device of this machine answers to it.\n"
        "  0: NVIDIA H100 80GB HBM3 (h100-sxm5-80gb)\n"
        f"{NO_AMD}Type --sdperf-gpu=h100-sxm5-80gb, or leave the option out to run on the CPU."
    )


def test_a_gpu_that_is_hidden(machine):
    environ = {"CUDA_VISIBLE_DEVICES": "GPU-5c1f", "HOME": "/root"}
    assert message("a100", machine(H100, A100_40, environ=environ), environ) == (
        "GPU 'a100' was asked for, but no device of this machine answers to it.\n"
        "  0: NVIDIA H100 80GB HBM3 (h100-sxm5-80gb)\n"
        f"{NO_AMD}CUDA_VISIBLE_DEVICES='GPU-5c1f' may hide others.\n"
        "Type --sdperf-gpu=h100-sxm5-80gb, or leave the option out to run on the CPU."
    )


def test_all_gpus_hidden(machine):
    environ = {"CUDA_VISIBLE_DEVICES": ""}
    assert message("h100", machine(H100, environ=environ), environ) == (
        "GPU 'h100' was asked for, but no device of this machine answers to it.\n"
        "  nvml: CUDA_VISIBLE_DEVICES='' hides all of: NVIDIA H100 80GB HBM3. "
        "Unset it, or name one of these by position or UUID (nvidia-smi -L).\n"
        f"{NO_AMD}{LEAVE_OUT}"
    )


def test_a_position_that_is_not_there(machine):
    assert message("2", machine(H100, A100_40)) == (
        "GPU '2' was asked for, but no device of this machine answers to it.\n"
        "  0: NVIDIA H100 80GB HBM3 (h100-sxm5-80gb)\n"
        "  1: NVIDIA A100-SXM4-40GB (a100-sxm4-40gb)\n"
        f"{NO_AMD}Type --sdperf-gpu=h100-sxm5-80gb, or leave the option out to run on the CPU."
    )


def test_a_uuid_that_is_too_short(machine):
    assert message("GPU-a1", machine(H100, A100_40, A100_80)) == (
        "UUID 'GPU-a1' is the start of 2 devices: GPU-a1000000-0040, GPU-a1000000-0080. Type more of it."
    )


@pytest.mark.parametrize(
    ("gpu", "told"),
    [
        ("a1000", "Did you mean 'a100'? "),
        ("rtx4090", "Did you mean 'rtx-4090'? "),
        ("voodoo2", ""),
    ],
)
def test_unknown_gpu(machine, gpu, told):
    assert message(gpu, machine(), error=UnknownNameError) == f"unknown GPU {gpu!r}. {told}Known: {FAMILIES}. {HINT}"


def test_a_slug_with_a_typing_error(machine):
    known = FAMILIES.replace("a100, ", "a100, a100-sxm4-40gb, ")
    assert message("a100-sxm-40gb", machine(), error=UnknownNameError) == (
        f"unknown GPU 'a100-sxm-40gb'. Did you mean 'a100-sxm4-40gb'? Known: {known}. {HINT}"
    )


def test_no_probe_for_cpus(machine):
    probes = machine()
    del probes["cpu"]
    assert message("", probes) == (
        "no device probe for CPUs is registered. Known probes: nvml, amdsmi. "
        "Leave the plug-in pytest_sdperf.builtins switched on."
    )


# --------------------------------------------------------------------------------------------- what a name means, words


@pytest.mark.parametrize(
    ("gpu", "kind"),
    [
        ("", "cpu"),
        ("cpu", "cpu"),
        ("a100", "cuda"),
        ("nvidia", "cuda"),
        ("a100-sxm4-40gb", "cuda"),
        ("mi300x", "rocm"),
        ("cuda", "cuda"),
        ("sm_120", "cuda"),
        ("amd", "rocm"),
        ("rocm", "rocm"),
        ("gfx942", "rocm"),
        ("gfx1201", "rocm"),
        ("mi300x-cpx-nps4", "rocm"),
        ("auto", None),
        ("0", None),
        ("GPU-5c1f", None),
    ],
)
def test_kind_of_a_name(gpu, kind):
    assert named_kind(gpu) == kind


def test_describe_a_gpu(machine):
    assert describe(choose_device("h100", machine(H100), environ={}).device) == (
        "NVIDIA H100 80GB HBM3 (h100-sxm5-80gb), sm_90, 79.6 GiB, driver 580.159.04, power limit 400 W"
    )


def test_describe_a_cpu():
    device = Device(
        "cpu", "AMD EPYC", "cpu-amd-epyc-2c", machine={"memory_bytes": 16 * 2**30, "cores": 2, "arch": "x86_64"}
    )
    assert describe(device) == "AMD EPYC (cpu-amd-epyc-2c), 2 cores, 16.0 GiB"


def test_describe_a_device_that_tells_nothing():
    assert describe(Device("cuda", "GRID A100-10C", "grid-a100-10c")) == "GRID A100-10C (grid-a100-10c)"


# -------------------------------------------------------------------------------------------------- worker environment


def test_a_worker_is_held_to_one_device_by_uuid(machine):
    probes = machine(H100, A100_40, SPLIT, amd=(MI300X,))

    def environment(gpu):
        return worker_environment(choose_device(gpu, probes, environ={}).device, environ={})

    assert environment("1") == {"CUDA_VISIBLE_DEVICES": "GPU-a1000000-0040", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert environment("MIG-") == {"CUDA_VISIBLE_DEVICES": "MIG-11110000-0000", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert environment("mi300x") == {
        "ROCR_VISIBLE_DEVICES": "GPU-00a1b2c3d4e5f607",
        "HIP_VISIBLE_DEVICES": "0",
        "CUDA_VISIBLE_DEVICES": "0",
    }
    assert environment("cpu") == {"CUDA_VISIBLE_DEVICES": "-1", "HIP_VISIBLE_DEVICES": "-1"}


@pytest.mark.parametrize(
    ("inherited", "entry"),
    [
        ({}, "1"),
        ({"HIP_VISIBLE_DEVICES": "5,7"}, "7"),
        ({"CUDA_VISIBLE_DEVICES": "3, 2"}, "2"),
        ({"HIP_VISIBLE_DEVICES": "5,7", "CUDA_VISIBLE_DEVICES": "3,2"}, "7"),
    ],
)
def test_a_partition_without_a_uuid_is_held_by_its_position(inherited, entry):
    device = Device("rocm", "AMD Instinct MI300X OAM", "mi300x-cpx-nps4", index=1)
    expected = {"HIP_VISIBLE_DEVICES": entry, "CUDA_VISIBLE_DEVICES": entry}
    assert worker_environment(device, environ=inherited) == expected


def test_a_card_without_a_uuid_is_held_by_its_position(monkeypatch):
    device = Device("cuda", "GRID A100-10C", "grid-a100-10c", index=1)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,6")
    assert worker_environment(device) == {"CUDA_VISIBLE_DEVICES": "6", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def test_what_a_worker_sees_is_the_device(machine):
    """The environment of a worker, read back by the probe, leaves exactly the device that was chosen."""
    probes = machine(H100, A100_40, A100_80, SPLIT, amd=(MI300X,))
    for position in range(5):
        device = choose_device(str(position), probes, environ={}).device
        environ = worker_environment(device, environ={})
        probe = NvmlProbe(environ) if device.kind == "cuda" else AmdsmiProbe(environ)
        assert [seen.uuid for seen in probe.find()] == [device.uuid]
