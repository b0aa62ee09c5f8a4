"""One device of this machine, its state, and what a plug-in promises that finds devices.

Standard library only at import time: workers import this under foreign interpreters.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pytest_sdperf.core.values.remark import Remark

DeviceKind = Literal["cpu", "cuda", "rocm"]


@dataclass(frozen=True)
class Health:
    """State of a device at one moment; None means the machine cannot tell (never 0).

    Attributes:
        reasons: Sentences why a measurement taken now would not be fit to be judged.
        remarks: What is worth recording and does not invalidate (software power cap, ...).
        sm_clock_mhz, memory_clock_mhz: Current clocks.
        temperature_c: Degrees Celsius.
        power_w: Current draw in watts.
        other_processes: Processes on the device that are not ours; None if unknown.
        memory_used_bytes: Memory in use on the whole device.
        throttled: Counters that only grow, by reason: how much the device was slowed down since its driver started.
            Growth while measuring makes the measurement invalid.
        capped: The same for reasons that are normal for the card or only recorded (software power cap).
        counter_unit: Unit of both: `s`, or the vendor's own.
        clocks_locked: Whether somebody's setting holds the clocks down now; None where the machine cannot tell, as of a
            device that is idle.
    """

    reasons: tuple[str, ...] = ()
    remarks: tuple[Remark, ...] = ()
    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    other_processes: int | None = None
    memory_used_bytes: int | None = None
    throttled: Mapping[str, float] = field(default_factory=dict)
    capped: Mapping[str, float] = field(default_factory=dict)
    counter_unit: str = "s"
    clocks_locked: bool | None = None


@dataclass(frozen=True)
class Device:
    """One device of this machine.

    Attributes:
        kind: `cpu`, `cuda` or `rocm`.
        name: As the vendor's library reports it.
        slug: File name of its baselines, such as `a100-sxm4-40gb`.
        index: Position among the devices that this process may see (after *_VISIBLE_DEVICES).
        uuid: Vendor UUID; stays in memory, never stored. Empty for a CPU.
        card: UUID of the physical card that it is a part of, as a MIG device is; empty for a whole card.
        machine: Machine keys of a baseline: `slug`, `memory_bytes`, `power_limit_w`, `partition`, `locked_clocks`,
            `driver`, `cores`, ...; a value that the machine cannot tell is None.
    """

    kind: DeviceKind
    name: str
    slug: str
    index: int = 0
    uuid: str = ""
    card: str = ""
    machine: Mapping[str, str | int | float | None] = field(default_factory=dict)

    @property
    def physical(self) -> str:
        """UUID of the physical card: what is measured on one part of it is disturbed by its other parts."""
        return self.card or self.uuid


@dataclass(frozen=True)
class ClockCommands:
    """What the owner of a GPU may type so that its clocks stand still; the suite itself never changes them.

    Attributes:
        lock: Holds the clock at one that the card keeps under load.
        unlock: Lets it go again.
    """

    lock: str
    unlock: str


class DeviceProbe(ABC):
    """Finds the devices of one vendor and reads their state."""

    name: str
    kind: DeviceKind

    @abstractmethod
    def find(self) -> tuple[Device, ...]:
        """Return the devices that this process may use, in their visible order.

        Raises:
            DeviceMissingError: The vendor's library or driver is absent; the message says which.
        """

    @abstractmethod
    def health(self, device: Device) -> Health:
        """Read the device's state now. Every query that fails becomes None, never 0, and never raises."""

    def memory_used_bytes(self, device: Device) -> int | None:
        """Return memory in use on the whole device in bytes, or None if the machine cannot tell.

        Called every few milliseconds during the first and second run, so it must be cheap.
        """
        return self.health(device).memory_used_bytes

    def energy_j(self, device: Device) -> float | None:
        """Return the joules that the device has taken since its driver started; None where nothing tells.

        Of a part of a card it is None as well: a counter is that of the whole card. Called every few milliseconds
        while calls are repeated that nobody times, so it must be cheap.
        """
        return None

    def clock_commands(self, device: Device) -> ClockCommands | None:
        """Return what locks the device's clocks and lets them go; None where there is no such command."""
        return None
