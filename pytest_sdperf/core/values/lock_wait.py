"""When a measurement had its device to itself, and for whom it had to wait."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LockWait:
    """One measurement's turn on a device.

    Attributes:
        position: Of the device among those that pytest could see.
        began_s, ended_s: Seconds since 1970.
        waited_s: How long it waited before.
        waited_for: Who had the device when it began to wait; empty where that was this run itself, or nobody.
    """

    position: int
    began_s: float
    ended_s: float
    waited_s: float = 0.0
    waited_for: str = ""
