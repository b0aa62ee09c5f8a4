"""Questions to NVML. Each is asked on its own, and what a driver cannot answer is None, never 0."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any, TypeVar

from pytest_sdperf.devices._sharing import other_processes

COMPUTE_FILE = "/dev/nvidia-uvm"  # opened by every process that computes, not by one that only asks NVML
_COUNTERS = {
    "NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN": "software thermal slowdown",
    "NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN": "hardware thermal slowdown",
    "NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN": "hardware power brake",
    "NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP": "software power cap",
}
_VALUE_FIELDS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")  # by nvmlValueType_t
_VIRTUALIZATION = {0: "none", 1: "passthrough", 2: "vgpu", 3: "host-vgpu", 4: "host-vsga"}
_SENTINELS = (0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF)
_CLOCKS = {"SM": 1, "MEM": 2}  # nvmlClockType_t
_MOST = 64  # cards of a machine, MIG devices of a card
_Read = TypeVar("_Read")


class NvmlQueries:
    """NVML as a set of questions that never raise.

    Args:
        library: The module `pynvml`, initialised.
    """

    def __init__(self, library: Any) -> None:
        self._library = library

    def ask(self, function: str, *arguments: Any) -> Any:
        """Call one function; None if the binding, the driver or the card does not support it."""
        return self.told(function, *arguments, read=lambda answer: answer)

    def told(self, function: str, *arguments: Any, read: Callable[[Any], _Read]) -> _Read | None:
        """Call one function and read its answer; None if one of the two is not possible.

        Args:
            function: Its name.
            arguments: What it is called with.
            read: Takes from the answer what is asked for. An answer of another shape, as a binding gives that does not
                fit its driver, is none.
        """
        try:
            return read(getattr(self._library, function)(*arguments))
        except Exception:  # noqa: BLE001  (old bindings lack functions; a failed query must never end a run)
            return None

    def text(self, function: str, *arguments: Any) -> str:
        """Ask for a text; empty if there is none."""
        return self.told(function, *arguments, read=_text) or ""

    def number(self, function: str, *arguments: Any) -> int | None:
        """Ask for a number; None also for the library's marks of "not available"."""
        return self.told(function, *arguments, read=_available)

    def cards(self) -> list[Any]:
        """Return handles in the order of the PCI bus; a card that is lost has none."""
        count = min(self.number("nvmlDeviceGetCount") or 0, _MOST)
        handles = [self.ask("nvmlDeviceGetHandleByIndex", index) for index in range(count)]
        return sorted((handle for handle in handles if handle is not None), key=self._bus_id)

    def mig_parts(self, card: Any) -> list[Any]:
        """Return handles of the MIG devices of a card."""
        count = min(self.number("nvmlDeviceGetMaxMigDeviceCount", card) or 0, _MOST)
        parts = [self.ask("nvmlDeviceGetMigDeviceHandleByIndex", card, index) for index in range(count)]
        return [part for part in parts if part is not None]

    def mig_mode(self, card: Any) -> str | None:
        """Return `enabled` or `disabled`; None for a card that knows no MIG."""
        return self.told("nvmlDeviceGetMigMode", card, read=lambda mode: "enabled" if mode[0] == 1 else "disabled")

    def mig_profile(self, part: Any) -> str:
        """Return the profile of a MIG device, such as `1g.5gb`."""
        named = re.search(r" MIG (\S.*)$", self.text("nvmlDeviceGetName", part))
        if named:
            return named.group(1).strip()
        return self.told("nvmlDeviceGetAttributes", part, read=_profile) or "unknown"

    def mig_ids(self, part: Any, card_uuid: str) -> tuple[str, str]:
        """Return the UUID of a MIG device and the name that drivers before R470 gave it."""
        instance = self.number("nvmlDeviceGetGpuInstanceId", part)
        compute = self.number("nvmlDeviceGetComputeInstanceId", part)
        return self.text("nvmlDeviceGetUUID", part), f"MIG-{card_uuid}/{instance}/{compute}"

    def memory_total(self, handle: Any) -> int | None:
        """Return the memory of a device in bytes."""
        return self._memory(handle, lambda info: _available(info.total)) or None

    def memory_used(self, handle: Any) -> int | None:
        """Return the memory in use in bytes, by whomever."""
        return self._memory(handle, lambda info: _available(info.used))

    def watts(self, function: str, card: Any) -> float | None:
        """Ask for a power, which NVML gives in milliwatts."""
        milliwatts = self.number(function, card)
        return None if milliwatts is None else milliwatts / 1000

    def energy_j(self, card: Any) -> float | None:
        """Return the joules since the driver started, which NVML gives in millijoules; no card before Volta does."""
        millijoules = self.number("nvmlDeviceGetTotalEnergyConsumption", card)
        return None if millijoules is None else millijoules / 1000

    def other_processes(self, handle: Any) -> int | None:
        """Count the computing processes that are not ours; None if the machine cannot tell."""
        # Windows lists every program that draws on the screen as a compute process.
        if os.name == "nt":
            return None
        function = "nvmlDeviceGetComputeRunningProcesses"
        return self.told(
            function, handle, read=lambda listed: other_processes([one.pid for one in listed], COMPUTE_FILE)
        )

    def locked_clocks(self, card: Any) -> str | None:
        """Return `default`, or the application clocks that somebody set; None if the card has none.

        Many cards boost above their default application clocks, so the comparison is with the default, not with the
        maximum. Clocks locked by `nvidia-smi -lgc` cannot be read back; under load they show as event reason 0x2, which
        is `clocks_locked` of a reading.
        """
        changed = []
        for label, clock in (("SM", self._clock("SM")), ("memory", self._clock("MEM"))):
            now = self.number("nvmlDeviceGetApplicationsClock", card, clock)
            default = self.number("nvmlDeviceGetDefaultApplicationsClock", card, clock)
            if now is None or default is None:
                return None
            if now != default:
                changed.append(f"{label} {now} MHz")
        return ", ".join(changed) or "default"

    def clock_mhz(self, card: Any, domain: str) -> int | None:
        """Return the current clock of `SM` or `MEM` in MHz."""
        return self.number("nvmlDeviceGetClockInfo", card, self._clock(domain))

    def sustained_mhz(self, card: Any) -> int | None:
        """Return three quarters of the highest SM clock, in the steps of 15 MHz that cards offer."""
        highest = self.number("nvmlDeviceGetMaxClockInfo", card, self._clock("SM"))
        return None if not highest else highest * 3 // 4 // 15 * 15

    def event_reasons(self, card: Any) -> int | None:
        """Return the bits that say what holds the clocks now."""
        bits = self.number("nvmlDeviceGetCurrentClocksEventReasons", card)
        return self.number("nvmlDeviceGetCurrentClocksThrottleReasons", card) if bits is None else bits

    def throttled_s(self, card: Any) -> dict[str, float]:
        """Return the seconds of throttling since the driver started, by reason, as far as the driver counts them."""
        fields = {getattr(self._library, name, None): reason for name, reason in _COUNTERS.items()}
        fields.pop(None, None)

        def read(values: Any) -> dict[str, float]:
            told = {
                fields[value.fieldId]: _available(getattr(value.value, _VALUE_FIELDS[value.valueType]))
                for value in values
                if value.nvmlReturn == 0 and value.fieldId in fields
            }
            return {reason: nanoseconds / 1e9 for reason, nanoseconds in told.items() if nanoseconds is not None}

        return self.told("nvmlDeviceGetFieldValues", card, list(fields), read=read) or self._violation_s(card)

    def arch(self, card: Any) -> str | None:
        """Return the compute capability as `sm_90`."""
        return self.told("nvmlDeviceGetCudaComputeCapability", card, read=lambda found: f"sm_{found[0]:d}{found[1]:d}")

    def ecc(self, card: Any) -> str | None:
        """Return `on` or `off`; None for a card without ECC."""
        return self.told("nvmlDeviceGetEccMode", card, read=lambda mode: "on" if mode[0] else "off")

    def virtualization(self, card: Any) -> str | None:
        """Return how the card reaches this machine: `none`, `passthrough`, `vgpu`, ..."""
        return self.told("nvmlDeviceGetVirtualizationMode", card, read=_VIRTUALIZATION.get)

    def _bus_id(self, card: Any) -> str:
        return self.told("nvmlDeviceGetPciInfo", card, read=lambda info: _text(info.busId)) or ""

    def _clock(self, domain: str) -> int:
        return getattr(self._library, f"NVML_CLOCK_{domain}", _CLOCKS[domain])

    def _memory(self, handle: Any, read: Callable[[Any], int | None]) -> int | None:
        # Version 2 does not count the driver's own reservation as used; drivers before R510 lack it.
        version = getattr(self._library, "nvmlMemory_v2", None)
        found = self.told("nvmlDeviceGetMemoryInfo", handle, version, read=read)
        return self.told("nvmlDeviceGetMemoryInfo", handle, read=read) if found is None else found

    def _violation_s(self, card: Any) -> dict[str, float]:
        # What drivers had before the counters by reason: thermal throttling only.
        policy = getattr(self._library, "NVML_PERF_POLICY_THERMAL", 1)
        function = "nvmlDeviceGetViolationStatus"
        nanoseconds = self.told(function, card, policy, read=lambda status: _available(status.violationTime))
        return {} if nanoseconds is None else {"thermal slowdown": nanoseconds / 1e9}


def _available(value: Any) -> int | None:
    return value if isinstance(value, int) and 0 <= value <= _SENTINELS[-1] and value not in _SENTINELS else None


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value if isinstance(value, str) else ""


def _profile(attributes: Any) -> str:
    return f"{attributes.gpuInstanceSliceCount:d}g.{round(attributes.memorySizeMB / 1024)}gb"
