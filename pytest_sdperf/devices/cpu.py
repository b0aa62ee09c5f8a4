"""The processor of this machine, through psutil and what the operating system tells."""

from __future__ import annotations

import math
import platform
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from pytest_sdperf.core.device import Device, DeviceProbe, Health
from pytest_sdperf.core.errors import DeviceMissingError
from pytest_sdperf.core.machine.gpu_facts import to_slug
from pytest_sdperf.core.values.remark import Remark

_NOISE = re.compile(
    r"\((r|tm)\)|@.*$|\b\d+(st|nd|rd|th) gen\b|\bw(ith|/) radeon.*$|\b\S+-core\b|\b(cpu|processor|genuine)\b",
    re.IGNORECASE,
)
# A limit of a control group as large as this means that there is none (Linux rounds 2**63 down to pages).
_NO_LIMIT = 2**62


class CpuProbe(DeviceProbe):
    """The one CPU device. Its health holds remarks only: other programs on a laptop are not a fault of the machine.

    Args:
        root: Root of the file system that `/proc` and `/sys` are read from.
    """

    name = "cpu"
    kind = "cpu"

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def find(self) -> tuple[Device, ...]:
        """Return the one CPU, with the cores that this process may use."""
        psutil = _import_psutil()
        name = self._name()
        cores = _cores(psutil)
        quota = self._quota()
        usable = cores if quota is None else max(1, min(cores, math.floor(quota)))
        slug = f"cpu-{to_slug(_NOISE.sub(' ', name)) or 'unknown'}-{usable}c"
        machine = {
            "slug": slug,
            "memory_bytes": self._memory_bytes(psutil),
            "power_limit_w": None,
            "partition": None,
            "locked_clocks": None,
            "driver": None,
            "arch": platform.machine() or None,
            "cores": cores,
            "core_quota": quota,
            "cpu_model": self._model(),
        }
        return (Device("cpu", name, slug, machine=machine),)

    def health(self, device: Device) -> Health:
        """Read clock, temperature, load and memory; a reading that the machine lacks is None."""
        try:
            psutil = _import_psutil()
        except DeviceMissingError:
            return Health()
        clock = _read(psutil, "cpu_freq")
        memory = _read(psutil, "virtual_memory")
        steal = getattr(_read(psutil, "cpu_times"), "steal", None)
        return Health(
            remarks=_remarks(psutil, device),
            sm_clock_mhz=round(clock.current) if clock is not None and clock.current else None,
            temperature_c=_temperature_c(psutil),
            memory_used_bytes=None if memory is None else memory.total - memory.available,
            capped={} if steal is None else {"processor time taken by other virtual machines": float(steal)},
        )

    def _name(self) -> str:
        if sys.platform == "darwin":
            name = _output("sysctl", "-n", "machdep.cpu.brand_string")
        elif sys.platform == "win32":
            name = _windows_name()
        else:
            name = self._cpuinfo("model name")
        return " ".join((name or platform.processor() or platform.machine() or "unknown").split())

    def _model(self) -> str | None:
        """Return vendor, family, model and stepping, which tell apart processors that hide their name."""
        keys = ("vendor_id", "cpu family", "model", "stepping")
        if not self._cpuinfo("cpu family"):  # Arm
            keys = ("CPU implementer", "CPU architecture", "CPU part", "CPU revision")
        return " ".join(filter(None, (self._cpuinfo(key) for key in keys))) or None

    def _cpuinfo(self, key: str) -> str:
        """Return the value of the first line of /proc/cpuinfo with this key; empty if there is none."""
        found = re.search(rf"^{re.escape(key)}[ \t]*:[ \t]*(.*)$", self._file("proc/cpuinfo"), re.MULTILINE)
        return found.group(1).strip() if found else ""

    def _quota(self) -> float | None:
        """Return the cores' worth of time that the control group allows; None without a limit."""
        limit = self._file("sys/fs/cgroup/cpu.max").split()  # version 2: "200000 100000" or "max 100000"
        if not limit:
            limit = [self._file(f"sys/fs/cgroup/cpu/cpu.cfs_{name}_us").strip() for name in ("quota", "period")]
        if len(limit) != 2 or not all(part.isdigit() for part in limit) or int(limit[1]) == 0:
            return None
        return int(limit[0]) / int(limit[1])

    def _memory_bytes(self, psutil: Any) -> int | None:
        """Return the memory of the machine, or of the control group where that is less."""
        sizes = [
            int(text)
            for name in ("memory.max", "memory/memory.limit_in_bytes")
            if (text := self._file(f"sys/fs/cgroup/{name}").strip()).isdigit() and int(text) < _NO_LIMIT
        ]
        memory = _read(psutil, "virtual_memory")
        if memory is not None:
            sizes.append(int(memory.total))
        return min(sizes, default=None)

    def _file(self, path: str) -> str:
        try:
            return (self._root / path).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""


def _import_psutil() -> Any:
    try:
        import psutil
    except ImportError:
        raise DeviceMissingError("the package psutil is not installed. Type: pip install psutil") from None
    return psutil


def _read(psutil: Any, function: str, *arguments: Any) -> Any:
    """Call one function; None where the operating system lacks what it reads."""
    try:
        return getattr(psutil, function)(*arguments)
    except Exception:  # noqa: BLE001  (each system lacks something else, and a failed reading must never end a run)
        return None


def _cores(psutil: Any) -> int:
    try:
        return len(psutil.Process().cpu_affinity())
    except (AttributeError, OSError, psutil.Error):  # macOS has no affinity
        return _read(psutil, "cpu_count") or 1


def _remarks(psutil: Any, device: Device) -> tuple[Remark, ...]:
    remarks = []
    load = _read(psutil, "getloadavg")
    if load is not None:
        text = f"Load average of the last minute: {load[0]:.1f} on {device.machine.get('cores')} cores."
        # A report says for which share of the time the measured threads waited, which is what it means for them.
        remarks.append(Remark(text, "load average", load[0], usual=True))
    battery = _read(psutil, "sensors_battery")
    if battery is not None and battery.power_plugged is False:
        remarks.append(Remark("The machine runs on battery."))
    return tuple(remarks)


def _temperature_c(psutil: Any) -> float | None:
    """Return the hottest reading of the processor's own sensor in degrees Celsius."""
    sensors = _read(psutil, "sensors_temperatures") or {}
    readings = [entry.current for name in ("coretemp", "k10temp", "cpu_thermal") for entry in sensors.get(name, ())]
    return max((float(reading) for reading in readings if reading), default=None)


def _output(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)  # noqa: S603  (fixed words)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()


def _windows_name() -> str:
    if sys.platform != "win32":
        return ""
    import winreg

    try:
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, r"HARDWARE\DESCRIPTION\System\CentralProcessor\0") as key:
            return str(winreg.QueryValueEx(key, "ProcessorNameString")[0])
    except OSError:
        return ""
