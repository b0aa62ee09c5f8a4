"""The only module that reads time; tests replace it."""

from __future__ import annotations

import datetime
import os
import time
from dataclasses import dataclass
from typing import Protocol


class Clock(Protocol):
    """A monotonic clock in seconds."""

    def __call__(self) -> float:
        """Return seconds since an arbitrary start."""


def monotonic_s() -> float:
    """Return monotonic seconds with the best resolution the machine has."""
    return time.perf_counter()


def wall_s() -> float:
    """Return seconds since 1970, to compare with the times of files."""
    return time.time()


def cpu_s() -> float:
    """Return the seconds that cores spent on this process and on those of its children that have ended."""
    return sum(os.times()[:4])


@dataclass(frozen=True)
class Took:
    """How long something took.

    Attributes:
        seconds: On the clock.
        cpu_seconds: That cores computed for it: waiting for a busy machine is no work.
    """

    seconds: float
    cpu_seconds: float


class Stopwatch:
    """Says how long something took."""

    def __init__(self) -> None:
        self._wall_s, self._cpu_s = monotonic_s(), cpu_s()

    def took(self) -> Took:
        """Return the time since it was made."""
        return Took(monotonic_s() - self._wall_s, cpu_s() - self._cpu_s)


def sleep_s(seconds: float) -> None:
    """Wait for `seconds`."""
    time.sleep(seconds)


def today_utc() -> str:
    """Return the current date and minute in UTC, as stored in baselines (`2026-11-27T23:16Z`)."""
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%MZ")


class DeviceClock:
    """A clock that only moves when told: it shows device time to pytest-benchmark.

    pytest-benchmark calls its timer before and after each round; between the two calls the round advances the
    clock by the time that the worker measured on the device.
    """

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        """Return the device seconds that have passed."""
        return self.now_s

    def advance_s(self, seconds: float) -> None:
        """Move the clock forward by `seconds`."""
        self.now_s += seconds
