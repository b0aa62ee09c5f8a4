"""NVIDIA GPUs, through NVML (module `pynvml` of the package nvidia-ml-py).

NVML ignores CUDA_VISIBLE_DEVICES and numbers cards by PCI bus; CUDA numbers the fastest card first unless
CUDA_DEVICE_ORDER=PCI_BUS_ID. Cards are therefore told apart by UUID. A position in CUDA_VISIBLE_DEVICES is read in PCI
order, which is CUDA's order too when all cards are of one kind; with different cards it is refused as ambiguous.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pytest_sdperf.core.device import ClockCommands, Device, DeviceProbe, Health
from pytest_sdperf.core.errors import DeviceMissingError
from pytest_sdperf.core.machine.gpu_facts import GpuTable, load_gpus, to_slug
from pytest_sdperf.core.values.remark import Remark
from pytest_sdperf.devices._nvml_queries import COMPUTE_FILE, NvmlQueries
from pytest_sdperf.devices._sharing import foreign_memory
from pytest_sdperf.devices._visible import names_positions, visible

_UNFIT = {
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}
_IDLE, _LOCKED = 0x001, 0x002
_RECORDED = {
    _LOCKED: "application or locked clocks",
    0x004: "software power cap",
    0x200: "board limit",
    0x400: "reliability limit",
}
_START_ERRORS = {
    "NVMLError_LibraryNotFound": (
        "no NVIDIA driver is installed, or it is hidden from this container (NVMLError_LibraryNotFound). "
        "Install the driver, or start the container with --gpus all."
    ),
    "NVMLError_DriverNotLoaded": (
        "the NVIDIA driver is installed but its kernel module is not loaded (NVMLError_DriverNotLoaded). "
        "Type: sudo modprobe nvidia"
    ),
    "NVMLError_LibRmVersionMismatch": (
        "the NVIDIA driver was updated and the old kernel module still runs (NVMLError_LibRmVersionMismatch). Reboot."
    ),
    "NVMLError_NoPermission": (
        "this user may not open the NVIDIA devices (NVMLError_NoPermission). Check the rights of /dev/nvidia*."
    ),
}


@dataclass(frozen=True)
class _Found:
    """A device, every identifier that CUDA_VISIBLE_DEVICES may name it by, and whether a card's position means it."""

    device: Device
    ids: tuple[str, ...]
    numbered: bool


class NvmlProbe(DeviceProbe):
    """NVIDIA cards and MIG devices. NVML stays open from the first question to the end of the process.

    Args:
        environ: Environment that CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER are read from; the process's own if None.
        gpus: Table of cards; the one of the package if None.
    """

    name = "nvml"
    kind = "cuda"

    def __init__(self, environ: Mapping[str, str] | None = None, *, gpus: GpuTable | None = None) -> None:
        self._environ = os.environ if environ is None else environ
        self._gpus = gpus
        self._nvml: NvmlQueries | None = None
        self._handles: dict[str, Any] = {}

    def find(self) -> tuple[Device, ...]:
        """Return the visible cards and MIG devices; a card in MIG mode is represented by its MIG devices only."""
        nvml = self._open()
        found = [item for card in nvml.cards() for item in self._devices_of(nvml, card)]
        if not found:
            raise DeviceMissingError(
                "the NVIDIA driver runs but reports no usable GPU. Type: nvidia-smi -L "
                "(a card in MIG mode needs MIG devices: sudo nvidia-smi mig -cgi ... -C)."
            )
        value = self._environ.get("CUDA_VISIBLE_DEVICES")
        self._refuse_ambiguity(found, value)
        if value is None:
            return tuple(replace(item.device, index=index) for index, item in enumerate(found))
        found.sort(key=lambda item: not item.numbered)
        numbered = sum(item.numbered for item in found)
        chosen = visible([item.ids for item in found], value, numbered=numbered)
        if not chosen:
            raise DeviceMissingError(
                f"CUDA_VISIBLE_DEVICES={value!r} hides all of: {', '.join(item.device.name for item in found)}. "
                "Unset it, or name one of these by position or UUID (nvidia-smi -L)."
            )
        return tuple(replace(found[position].device, index=index) for index, position in enumerate(chosen))

    def health(self, device: Device) -> Health:
        """Read clocks, temperature, power, throttle reasons and use; a MIG device's clocks are those of its card."""
        nvml, handle = self._handle(device)
        if nvml is None or handle is None:
            return Health(reasons=("NVML does not answer for this GPU; it may have fallen off the bus.",))
        card = handle
        if device.machine.get("mig") == "enabled":
            card = nvml.ask("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", handle) or handle
        bits = nvml.event_reasons(card)
        reasons, remarks = self._throttle(bits, device)
        throttled, capped = self._counters(nvml.throttled_s(card), device)
        used = nvml.memory_used(handle)
        foreign, unknown = foreign_memory(used, nvml.memory_total(handle), COMPUTE_FILE)
        return Health(
            reasons=(*reasons, *foreign),
            remarks=(*remarks, *unknown),
            sm_clock_mhz=nvml.clock_mhz(card, "SM"),
            memory_clock_mhz=nvml.clock_mhz(card, "MEM"),
            temperature_c=nvml.number("nvmlDeviceGetTemperature", card, 0),
            power_w=nvml.watts("nvmlDeviceGetPowerUsage", card),
            other_processes=nvml.other_processes(handle),
            memory_used_bytes=used,
            throttled=throttled,
            capped=capped,
            clocks_locked=None if bits is None or bits & _IDLE else bool(bits & _LOCKED),
        )

    def memory_used_bytes(self, device: Device) -> int | None:
        """Return memory in use on the whole device in bytes, with a single question to NVML."""
        nvml, handle = self._handle(device)
        return None if nvml is None or handle is None else nvml.memory_used(handle)

    def energy_j(self, device: Device) -> float | None:
        """Return the joules since the driver started, with a single question to NVML; None for a MIG device."""
        nvml, handle = self._handle(device)
        return None if nvml is None or handle is None or device.card else nvml.energy_j(handle)

    def clock_commands(self, device: Device) -> ClockCommands | None:
        """Return the commands of nvidia-smi, for a clock that power and heat seldom force a card below."""
        nvml, handle = self._handle(device)
        if nvml is None or handle is None or device.machine.get("mig") == "enabled":
            return None  # the clocks of a MIG device are those of its card, which others use too
        if device.machine.get("virtualization") == "vgpu":
            return None
        clock_mhz = nvml.sustained_mhz(handle)
        if clock_mhz is None:
            return None
        command = f"sudo nvidia-smi -i {device.uuid}"
        return ClockCommands(f"{command} -lgc {clock_mhz},{clock_mhz}", f"{command} -rgc")

    def _open(self) -> NvmlQueries:
        if self._nvml is None:
            try:
                import pynvml
            except ImportError:
                raise DeviceMissingError(
                    "the package nvidia-ml-py is not installed. Type: pip install nvidia-ml-py"
                ) from None
            try:
                pynvml.nvmlInit()
            except Exception as error:
                kind = type(error).__name__
                raise DeviceMissingError(_START_ERRORS.get(kind, f"NVML does not start ({kind}: {error}).")) from error
            self._nvml = NvmlQueries(pynvml)
        return self._nvml

    def _handle(self, device: Device) -> tuple[NvmlQueries | None, Any]:
        try:
            nvml = self._open()
        except DeviceMissingError:
            return None, None
        if device.uuid not in self._handles:
            self._handles[device.uuid] = nvml.ask("nvmlDeviceGetHandleByUUID", device.uuid)
        return nvml, self._handles[device.uuid]

    def _refuse_ambiguity(self, found: list[_Found], value: str | None) -> None:
        kinds = sorted({item.device.name.split(" MIG ")[0] for item in found})
        if len(kinds) > 1 and names_positions(value) and self._environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
            raise DeviceMissingError(
                f"CUDA_VISIBLE_DEVICES={value!r} is ambiguous: this machine has different cards ({', '.join(kinds)}), "
                "and CUDA numbers the fastest first. Name them by UUID (nvidia-smi -L), or type: "
                "export CUDA_DEVICE_ORDER=PCI_BUS_ID"
            )

    def _devices_of(self, nvml: NvmlQueries, card: Any) -> list[_Found]:
        whole = self._card(nvml, card)
        if whole.machine["mig"] != "enabled":
            return [_Found(whole, (whole.uuid,), numbered=True)]
        found: list[_Found] = []
        for part in nvml.mig_parts(card):
            ids = nvml.mig_ids(part, whole.uuid)
            # Where a card in MIG mode is named, CUDA takes its first MIG device.
            first = not found
            found.append(_Found(_mig_device(nvml, part, whole), (*ids, whole.uuid) if first else ids, numbered=first))
        return found

    def _card(self, nvml: NvmlQueries, card: Any) -> Device:
        name = nvml.text("nvmlDeviceGetName", card) or "NVIDIA GPU"
        memory = nvml.memory_total(card)
        slug = self._table.slug_of(name, memory)
        mig = nvml.mig_mode(card)
        machine = {
            "slug": slug,
            "memory_bytes": memory,
            "power_limit_w": nvml.watts("nvmlDeviceGetEnforcedPowerLimit", card),
            "partition": None if mig is None else "whole",
            "mig": mig,
            "locked_clocks": nvml.locked_clocks(card),
            "driver": nvml.text("nvmlSystemGetDriverVersion") or None,
            "ecc": nvml.ecc(card),
            "arch": nvml.arch(card),
            "virtualization": nvml.virtualization(card),
        }
        return Device("cuda", name, slug, uuid=nvml.text("nvmlDeviceGetUUID", card), machine=machine)

    @property
    def _table(self) -> GpuTable:
        return load_gpus() if self._gpus is None else self._gpus

    def _throttle(self, bits: int | None, device: Device) -> tuple[tuple[str, ...], tuple[Remark, ...]]:
        """Say what holds the clocks now: reasons that make a measurement unfit, and remarks."""
        if bits is None:
            return (), (Remark("This machine cannot tell what holds the clocks of the GPU."),)
        normal = self._normal(device)
        reasons, remarks = [], []
        for bit, name in {**_UNFIT, **_RECORDED}.items():
            if not bits & bit:
                continue
            if bit in _UNFIT and name not in normal:
                reasons.append(f"The GPU is slowed down: {name} (clocks event reason {bit:#x}).")
            else:
                usual = ", normal for this card" if name in normal else ""
                text = f"The clocks are held by: {name} (clocks event reason {bit:#x}{usual})."
                remarks.append(Remark(text, usual=bool(usual)))
        return tuple(reasons), tuple(remarks)

    def _counters(self, seconds: Mapping[str, float], device: Device) -> tuple[dict[str, float], dict[str, float]]:
        recorded = {*_RECORDED.values(), *self._normal(device)}
        return (
            {name: value for name, value in seconds.items() if name not in recorded},
            {name: value for name, value in seconds.items() if name in recorded},
        )

    def _normal(self, device: Device) -> tuple[str, ...]:
        facts = self._table.facts(device.slug)
        return () if facts is None else facts.normal_throttle


def _mig_device(nvml: NvmlQueries, part: Any, whole: Device) -> Device:
    profile = nvml.mig_profile(part)
    slug = f"{whole.slug}-mig-{to_slug(profile)}"
    machine = {**whole.machine, "slug": slug, "partition": profile, "memory_bytes": nvml.memory_total(part)}
    uuid = nvml.text("nvmlDeviceGetUUID", part)
    return Device("cuda", f"{whole.name} MIG {profile}", slug, uuid=uuid, card=whole.uuid, machine=machine)
