"""AMD GPUs, through amdsmi: the Python module that ROCm installs, not PyPI's copy of it.

ROCR_VISIBLE_DEVICES is applied first, on HIP's order of all devices; HIP_VISIBLE_DEVICES, or CUDA_VISIBLE_DEVICES where
that is not set, then counts among what is left. The order is `hip_id` where the driver tells it, else the PCI bus.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_sdperf.core.device import ClockCommands, Device, DeviceProbe, Health
from pytest_sdperf.core.errors import DeviceMissingError
from pytest_sdperf.core.machine.gpu_facts import GpuTable, load_gpus, to_slug
from pytest_sdperf.core.values.remark import Remark
from pytest_sdperf.devices._amdsmi_queries import COMPUTE_FILE, AmdsmiQueries
from pytest_sdperf.devices._sharing import foreign_memory
from pytest_sdperf.devices._visible import visible

_RECORDED = ("package power limit",)
_START_ERRORS = {
    10: (
        "this user may not open the AMD devices (AMDSMI_STATUS_NO_PERM, code 10). "
        "Type: sudo usermod -a -G render,video $USER"
    ),
    34: "the amdgpu kernel module is not loaded (AMDSMI_STATUS_DRIVER_NOT_LOADED, code 34). Type: sudo modprobe amdgpu",
}


class AmdsmiProbe(DeviceProbe):
    """AMD cards and their compute partitions. amdsmi stays open from the first question to the end of the process.

    Args:
        environ: Environment that the *_VISIBLE_DEVICES are read from; the process's own if None.
        gpus: Table of cards; the one of the package if None.
    """

    name = "amdsmi"
    kind = "rocm"

    def __init__(self, environ: Mapping[str, str] | None = None, *, gpus: GpuTable | None = None) -> None:
        self._environ = os.environ if environ is None else environ
        self._gpus = gpus
        self._amdsmi: AmdsmiQueries | None = None
        self._handles: dict[str, Any] = {}

    def find(self) -> tuple[Device, ...]:
        """Return the visible devices in HIP's order; a partitioned card counts once per partition."""
        amdsmi = self._open()
        handles = _in_hip_order(amdsmi)
        if not handles:
            raise DeviceMissingError("the amdgpu driver runs but reports no GPU. Type: amd-smi list")
        devices = _without_shared_uuids([self._device(amdsmi, handle) for handle in handles])
        chosen = self._visible(devices)
        if not chosen:
            raise DeviceMissingError(
                f"{self._filters()} hides all of: {', '.join(device.name for device in devices)}. "
                "Unset it, or name one of these by position or UUID (amd-smi list)."
            )
        self._handles = {}
        found = []
        for index, position in enumerate(chosen):
            device = replace(devices[position], index=index)
            self._handles[_key(device)] = handles[position]
            found.append(device)
        return tuple(found)

    def health(self, device: Device) -> Health:
        """Read clocks, temperature, power, limits and use."""
        amdsmi, handle = self._handle(device)
        if amdsmi is None or handle is None:
            return Health(reasons=("amdsmi does not answer for this GPU.",))
        limits = amdsmi.active_limits(handle)
        normal = self._normal(device)
        reasons = tuple(f"The GPU is slowed down: {name}." for name in limits or () if name not in normal)
        remarks = tuple(Remark(f"The clocks are held by: {name}.") for name in limits or () if name in normal)
        if limits is None:
            remarks = (Remark("This machine cannot tell what holds the clocks of the GPU."),)
        used = amdsmi.memory_used(handle)
        foreign, unknown = foreign_memory(used, amdsmi.memory_total(handle), COMPUTE_FILE)
        throttled, capped = amdsmi.counters(handle)
        return Health(
            reasons=(*reasons, *foreign),
            remarks=(*remarks, *unknown),
            sm_clock_mhz=amdsmi.clock_mhz(handle, "GFX"),
            memory_clock_mhz=amdsmi.clock_mhz(handle, "MEM"),
            temperature_c=amdsmi.temperature_c(handle),
            power_w=amdsmi.power_w(handle),
            other_processes=amdsmi.other_processes(handle),
            memory_used_bytes=used,
            throttled={name: count for name, count in throttled.items() if name not in normal},
            capped={**capped, **{name: count for name, count in throttled.items() if name in normal}},
            counter_unit="firmware samples",
        )

    def memory_used_bytes(self, device: Device) -> int | None:
        """Return memory in use on the whole device in bytes, with a single question to amdsmi."""
        amdsmi, handle = self._handle(device)
        return None if amdsmi is None or handle is None else amdsmi.memory_used(handle)

    def energy_j(self, device: Device) -> float | None:
        """Return the joules since the driver started; None for a part of a card."""
        amdsmi, handle = self._handle(device)
        whole = _is_whole(device.machine.get("partition"))
        return None if amdsmi is None or handle is None or not whole else amdsmi.energy_j(handle)

    def clock_commands(self, device: Device) -> ClockCommands | None:
        """Return the commands of amd-smi for the mode that AMD calls performance determinism."""
        amdsmi, handle = self._handle(device)
        if amdsmi is None or handle is None:
            return None
        clock_mhz, bus_id = amdsmi.sustained_mhz(handle), amdsmi.bus_id(handle)
        if clock_mhz is None or not bus_id or device.machine.get("virtualization") == "guest":
            return None
        return ClockCommands(
            f"sudo amd-smi set --gpu {bus_id} --perf-determinism {clock_mhz}",
            f"sudo amd-smi reset --gpu {bus_id} --perf-determinism",
        )

    def _open(self) -> AmdsmiQueries:
        if self._amdsmi is None:
            amdsmi = _import_amdsmi()
            try:
                amdsmi.amdsmi_init()
            except Exception as error:
                code = getattr(error, "err_code", 0)
                told = " ".join(str(error).split())
                raise DeviceMissingError(
                    _START_ERRORS.get(
                        code if isinstance(code, int) else 0, f"amdsmi does not start ({type(error).__name__}: {told})."
                    )
                ) from error
            self._amdsmi = AmdsmiQueries(amdsmi)
        return self._amdsmi

    def _handle(self, device: Device) -> tuple[AmdsmiQueries | None, Any]:
        try:
            if not self._handles:
                self.find()
            return self._open(), self._handles.get(_key(device))
        except DeviceMissingError:
            return None, None

    def _device(self, amdsmi: AmdsmiQueries, handle: Any) -> Device:
        name = amdsmi.name(handle)
        memory = amdsmi.memory_total(handle)
        partition = amdsmi.partition(handle)
        slug = self._table.slug_of(name, memory, pci_id=amdsmi.pci_id(handle))
        if partition and not _is_whole(partition):
            slug = f"{slug}-{to_slug(partition)}"
        machine = {
            "slug": slug,
            "memory_bytes": memory,
            "power_limit_w": amdsmi.power_limit_w(handle),
            "partition": partition,
            "mig": None,
            "locked_clocks": amdsmi.locked_clocks(handle),
            "driver": amdsmi.driver(handle),
            "ecc": None,
            "arch": amdsmi.arch(handle),
            "virtualization": amdsmi.virtualization(handle),
        }
        return Device("rocm", name, slug, uuid=amdsmi.uuid(handle), machine=machine)

    def _visible(self, devices: Sequence[Device]) -> tuple[int, ...]:
        ids = [(device.uuid,) if device.uuid else () for device in devices]
        left = visible(ids, self._environ.get("ROCR_VISIBLE_DEVICES"))
        hip = self._environ.get("HIP_VISIBLE_DEVICES", self._environ.get("CUDA_VISIBLE_DEVICES"))
        return tuple(left[position] for position in visible([ids[position] for position in left], hip))

    def _filters(self) -> str:
        names = ["ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"]
        if "HIP_VISIBLE_DEVICES" not in self._environ:
            names.append("CUDA_VISIBLE_DEVICES")
        return " with ".join(f"{name}={self._environ[name]!r}" for name in names if name in self._environ)

    @property
    def _table(self) -> GpuTable:
        return load_gpus() if self._gpus is None else self._gpus

    def _normal(self, device: Device) -> tuple[str, ...]:
        facts = self._table.facts(device.slug)
        return _RECORDED if facts is None else (*_RECORDED, *facts.normal_throttle)


def _import_amdsmi() -> Any:
    try:
        # Where libamd_smi.so is missing, the import prints two lines and raises KeyError.
        with contextlib.redirect_stdout(io.StringIO()):
            import amdsmi
    except ModuleNotFoundError:
        raise DeviceMissingError(
            "the module amdsmi is not installed. It belongs to ROCm; type: pip install /opt/rocm/share/amd_smi"
        ) from None
    except Exception as error:
        raise DeviceMissingError(
            f"amdsmi cannot load the ROCm library libamd_smi.so ({type(error).__name__}: {error}). Install ROCm, or "
            "set ROCM_PATH to where it is; the module must come from that ROCm: pip install /opt/rocm/share/amd_smi"
        ) from error
    return amdsmi


def _in_hip_order(amdsmi: AmdsmiQueries) -> list[Any]:
    handles = amdsmi.handles()
    hip_ids = [amdsmi.hip_id(handle) for handle in handles]
    known = [hip_id for hip_id in hip_ids if hip_id is not None]
    if len(set(known)) == len(handles):
        return [handle for _, handle in sorted(zip(known, handles, strict=True), key=lambda pair: pair[0])]
    return sorted(handles, key=amdsmi.bus_id)


def _without_shared_uuids(devices: Sequence[Device]) -> list[Device]:
    """Drop UUIDs that several partitions share: such a UUID would pin a worker to all of them."""
    uuids = [device.uuid for device in devices]
    return [device if uuids.count(device.uuid) == 1 else replace(device, uuid="") for device in devices]


def _is_whole(partition: Any) -> bool:
    """Whether a partition mode leaves a card in one piece."""
    return not isinstance(partition, str) or partition.startswith(("SPX", "NPS"))


def _key(device: Device) -> str:
    return device.uuid or f"#{device.index}"
