"""Questions to amdsmi. Each is asked on its own, and what a driver cannot answer is None, never 0.

The library says "not available" in four ways: an exception, the text "N/A", the largest unsigned number of the field's
width, and, on virtual machines, 0 for what can never be 0. Keys changed between releases, so several are tried.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from pytest_sdperf.devices._sharing import other_processes

COMPUTE_FILE = "/dev/kfd"  # opened by every process that computes through ROCm
_SENTINELS = (0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF)
_SENTINEL_16 = 0xFFFF  # of power, clocks and temperatures; a legal number of bytes
_MOST_WATTS = 10_000  # amdsmi gives power limits in microwatts on bare metal and in watts on hosts of virtual machines
_RESOLUTION, _MOST_UJ = "counter_resolution", 1e6  # a step of the energy counter: 15.3 microjoules on MI200 and MI300
_THROTTLED = {
    "acc_prochot_thrm": "processor hot",
    "acc_socket_thrm": "socket thermal limit",
    "acc_vr_thrm": "voltage regulator thermal limit",
    "acc_hbm_thrm": "memory thermal limit",
}
_CAPPED = {"acc_ppt_pwr": "package power limit"}
_ACTIVE = {
    "active_prochot_thrm": "processor hot",
    "active_socket_thrm": "socket thermal limit",
    "active_vr_thrm": "voltage regulator thermal limit",
    "active_hbm_thrm": "memory thermal limit",
    "active_ppt_pwr": "package power limit",
}


class AmdsmiQueries:
    """amdsmi as a set of questions that never raise.

    Args:
        library: The module `amdsmi`, initialised.
    """

    def __init__(self, library: Any) -> None:
        self._library = library

    def ask(self, function: str, *arguments: Any) -> Any:
        """Call one function; None if the binding, the driver or the card does not support it."""
        try:
            return getattr(self._library, function)(*arguments)
        except Exception:  # noqa: BLE001  (releases differ in functions and structures; a query must never end a run)
            return None

    def handles(self) -> list[Any]:
        """Return the handles of all GPUs, or of all partitions of GPUs."""
        found = self.ask("amdsmi_get_processor_handles")
        return found if isinstance(found, list) else []

    def hip_id(self, handle: Any) -> int | None:
        """Return the position that HIP gives the device when nothing is hidden."""
        return self._table("amdsmi_get_gpu_enumeration_info", handle).number("hip_id")

    def bus_id(self, handle: Any) -> str:
        """Return the PCI address."""
        return _text(self.ask("amdsmi_get_gpu_device_bdf", handle))

    def uuid(self, handle: Any) -> str:
        """Return the identifier that ROCR_VISIBLE_DEVICES takes (`GPU-` and 16 digits); empty if there is none."""
        hip_uuid = self._table("amdsmi_get_gpu_enumeration_info", handle).text("hip_uuid")
        if hip_uuid:
            return hip_uuid
        serial = self._table("amdsmi_get_gpu_asic_info", handle).text("asic_serial").lower().removeprefix("0x")
        return f"GPU-{serial}" if serial.strip("0") else ""

    def name(self, handle: Any) -> str:
        """Return the market name; the board's product name where the driver has none."""
        market = self._table("amdsmi_get_gpu_asic_info", handle).text("market_name")
        if market and not market.startswith("0x"):
            return market
        return self._table("amdsmi_get_gpu_board_info", handle).text("product_name") or "AMD GPU"

    def pci_id(self, handle: Any) -> str:
        """Return the PCI device id, such as `0x74a1`."""
        return self._table("amdsmi_get_gpu_asic_info", handle).text("device_id")

    def arch(self, handle: Any) -> str | None:
        """Return the architecture without feature flags (`gfx942`)."""
        return self._table("amdsmi_get_gpu_asic_info", handle).text("target_graphics_version").split(":")[0] or None

    def driver(self, handle: Any) -> str | None:
        """Return the version of the kernel driver."""
        return self._table("amdsmi_get_gpu_driver_info", handle).text("driver_version") or None

    def virtualization(self, handle: Any) -> str | None:
        """Return how the card reaches this machine: `baremetal`, `guest`, `passthrough`, ..."""
        mode = self._table("amdsmi_get_gpu_virtualization_mode", handle).get("mode")
        name = str(getattr(mode, "name", "")).lower()
        return None if name in {"", "unknown"} else name

    def partition(self, handle: Any) -> str | None:
        """Return compute and memory partition mode, such as `SPX/NPS1`; None if the card knows none."""
        compute = _text(self.ask("amdsmi_get_gpu_compute_partition", handle))
        memory = _text(self.ask("amdsmi_get_gpu_memory_partition", handle))
        return "/".join(part for part in (compute, memory) if part) or None

    def memory_total(self, handle: Any) -> int | None:
        """Return the memory of a device in bytes."""
        total = self._vram("amdsmi_get_gpu_memory_total", handle)
        return total or self._megabytes(handle, "vram_total") or None

    def memory_used(self, handle: Any) -> int | None:
        """Return the memory in use in bytes, by whomever."""
        used = self._vram("amdsmi_get_gpu_memory_usage", handle)
        return self._megabytes(handle, "vram_used") if used is None else used

    def power_limit_w(self, handle: Any) -> float | None:
        """Return the enforced power limit in watts."""
        limit = self._table("amdsmi_get_power_cap_info", handle).positive("power_cap")
        if limit is None:
            limit = self._table("amdsmi_get_power_info", handle).positive("power_limit")
        return None if limit is None else limit / 1e6 if limit > _MOST_WATTS else float(limit)

    def power_w(self, handle: Any) -> float | None:
        """Return the current draw in watts (MI300 reports a current value, MI200 and older an average)."""
        power = self._table("amdsmi_get_power_info", handle)
        watts = power.positive("current_socket_power", "average_socket_power", "socket_power")
        return None if watts is None else float(watts)

    def energy_j(self, handle: Any) -> float | None:
        """Return the joules since the driver started: steps of a counter, each of so many microjoules."""
        counter = self._table("amdsmi_get_energy_count", handle)
        # `power` in ROCm 6.0 and before.
        steps, step_uj = counter.number("energy_accumulator") or counter.number("power"), counter.get(_RESOLUTION)
        known = isinstance(step_uj, (int, float)) and not isinstance(step_uj, bool) and 0 < step_uj < _MOST_UJ
        return steps * step_uj / 1e6 if steps and known else None

    def clock_mhz(self, handle: Any, domain: str) -> int | None:
        """Return the current clock of `GFX` or `MEM` in MHz."""
        return self._clock(handle, domain).positive("clk", "cur_clk")

    def sustained_mhz(self, handle: Any) -> int | None:
        """Return three quarters of the highest clock of the compute units."""
        highest = self._clock(handle, "GFX").positive("max_clk")
        return None if highest is None else highest * 3 // 4

    def locked_clocks(self, handle: Any) -> str | None:
        """Return `default`, or `GFX locked`; None if the driver cannot tell."""
        locked = self._clock(handle, "GFX").get("clk_locked")
        return None if not isinstance(locked, (bool, int)) else "GFX locked" if locked else "default"

    def temperature_c(self, handle: Any) -> float | None:
        """Return the hottest spot of the die in degrees Celsius."""
        metric = self._member("AmdSmiTemperatureMetric", "CURRENT")
        for sensor in ("JUNCTION", "HOTSPOT", "EDGE"):
            kind = self._member("AmdSmiTemperatureType", sensor)
            celsius = _number(self.ask("amdsmi_get_temp_metric", handle, kind, metric))
            if celsius is not None and 0 < celsius < _SENTINEL_16:
                return float(celsius)
        return None

    def active_limits(self, handle: Any) -> tuple[str, ...] | None:
        """Return what holds the clocks now; None before MI300 and on virtual machines."""
        status = self._table("amdsmi_get_violation_status", handle)
        known = {key: status.get(key) for key in _ACTIVE if isinstance(status.get(key), (bool, int))}
        return tuple(_ACTIVE[key] for key, active in known.items() if active) if known else None

    def counters(self, handle: Any) -> tuple[dict[str, float], dict[str, float]]:
        """Return how many firmware samples found the device throttled, and how many power-capped, by reason."""
        status = self._table("amdsmi_get_violation_status", handle)
        return status.counters(_THROTTLED), status.counters(_CAPPED)

    def other_processes(self, handle: Any) -> int | None:
        """Count the processes on a device that are not ours; None if the machine cannot tell."""
        processes = self.ask("amdsmi_get_gpu_process_list", handle)
        if not isinstance(processes, list) or not all(isinstance(process, Mapping) for process in processes):
            return None
        others = other_processes([process.get("pid") for process in processes], COMPUTE_FILE)
        # Without root the list holds one's own processes only, so that an empty rest says nothing.
        return others if others or getattr(os, "geteuid", lambda: 0)() == 0 else None

    def _member(self, enum: str, member: str) -> Any:
        return getattr(getattr(self._library, enum, None), member, None)

    def _table(self, function: str, *arguments: Any) -> _Answers:
        answer = self.ask(function, *arguments)
        return _Answers(answer if isinstance(answer, Mapping) else {})

    def _clock(self, handle: Any, domain: str) -> _Answers:
        return self._table("amdsmi_get_clock_info", handle, self._member("AmdSmiClkType", domain))

    def _vram(self, function: str, handle: Any) -> int | None:
        return _number(self.ask(function, handle, self._member("AmdSmiMemoryType", "VRAM")))

    def _megabytes(self, handle: Any, key: str) -> int | None:
        megabytes = self._table("amdsmi_get_gpu_vram_usage", handle).number(key)
        return None if megabytes is None else megabytes * 2**20


class _Answers:
    """A dictionary of the library, read with its marks of "not available" in mind."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def get(self, key: str) -> Any:
        return self._values.get(key)

    def text(self, key: str) -> str:
        return _text(self._values.get(key))

    def number(self, key: str) -> int | None:
        return _number(self._values.get(key))

    def positive(self, *keys: str) -> int | None:
        """Return the first of these numbers that is one; 0 and the 16-bit mark are none."""
        numbers = (self.number(key) for key in keys)
        return next((number for number in numbers if number and number != _SENTINEL_16), None)

    def counters(self, names: Mapping[str, str]) -> dict[str, float]:
        found = {name: self.number(key) for key, name in names.items()}
        return {name: float(count) for name, count in found.items() if count is not None}


def _number(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int) or value in _SENTINELS:
        return None
    return value if 0 <= value < 2**64 else None


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) and value.strip() not in {"N/A", ""} else ""
