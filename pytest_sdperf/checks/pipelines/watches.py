"""What the suite sees of a device while a worker runs: its memory and its state.

The suite polls from its own process, so that a worker needs no vendor library, and never while something is timed: a
worker waits before its warm-up until nothing is read any more.
"""

from __future__ import annotations

import dataclasses
import threading

from pytest_sdperf.builds.processes.process import Event
from pytest_sdperf.core import clock
from pytest_sdperf.core.device import Device, DeviceProbe, Health
from pytest_sdperf.core.values import Sample
from pytest_sdperf.tasks.worker import QUIET

WATCHED_PHASES = ("first_run", "second_run")
WATCH_INTERVAL_S = 0.005
STATE_INTERVAL_S = 0.25
# What a driver may take to answer; one that takes longer holds whoever asks for ever.
ANSWER_S = 10.0


class MemoryWatch:
    """Follows a worker's events and records the device's peak memory during the first and the second run."""

    def __init__(self, probe: DeviceProbe, device: Device) -> None:
        self._probe, self._device = probe, device
        self._before = self._read() if device.kind != "cpu" else None
        self._stop: threading.Event | None = None
        self._thread: threading.Thread | None = None
        self.peaks_bytes: dict[str, int] = {}

    def on_event(self, event: Event) -> None:
        """Start or stop watching at the border of a phase."""
        if self._before is None or event.text not in WATCHED_PHASES:
            return
        if event.name == "begin":
            self._stop = threading.Event()
            self._thread = threading.Thread(target=self._watch, args=(event.text, self._stop), daemon=True)
            self._thread.start()
        elif event.name == "end":
            self.close()

    def close(self) -> None:
        """Stop watching."""
        if self._stop is not None and self._thread is not None:
            self._stop.set()
            self._thread.join(ANSWER_S)
            if self._thread.is_alive():
                self.peaks_bytes.clear()  # what was read last may not be the peak
            self._stop = self._thread = None

    def _read(self) -> int | None:
        return self._probe.memory_used_bytes(self._device)

    def _watch(self, phase: str, stop: threading.Event) -> None:
        assert self._before is not None
        while True:
            # Read once more after the end: an arena keeps what the run allocated.
            last = stop.is_set()
            used = self._read()
            if used is not None:
                self.peaks_bytes[phase] = max(self.peaks_bytes.get(phase, 0), used - self._before)
            if last:
                return
            clock.sleep_s(WATCH_INTERVAL_S)

    def add_to(self, sample: Sample) -> Sample:
        """Return the sample with the peaks that were seen."""
        if not self.peaks_bytes:
            return sample
        return dataclasses.replace(
            sample,
            first_run_bytes=self.peaks_bytes.get("first_run"),
            second_run_bytes=self.peaks_bytes.get("second_run"),
            memory_source="device",
            peaks_bytes={**sample.peaks_bytes, "device": dict(self.peaks_bytes)},
        )


class StateWatch:
    """Reads the device's state while the first run of a worker keeps it busy: an idle device tells no clocks.

    Nothing is read any more when the worker begins to warm up.
    """

    def __init__(self, probe: DeviceProbe, device: Device) -> None:
        self._probe, self._device = probe, device
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self.seen: Health | None = None

    def on_event(self, event: Event) -> None:
        """Start or stop reading at the border of the first run, and end it before the warm-up."""
        if self._device.kind == "cpu":
            return
        if (event.name, event.text) == ("begin", QUIET):
            self.close()
        elif (event.name, event.text) == ("begin", "first_run"):
            self._over.clear()
            self._thread = threading.Thread(target=self._watch, daemon=True)
            self._thread.start()
        elif (event.name, event.text) == ("end", "first_run"):
            self._over.set()

    def close(self) -> None:
        """Wait until nothing is read any more; a driver that does not answer leaves the device unfit."""
        self._over.set()
        thread, self._thread = self._thread, None
        if thread is None:
            return
        thread.join(ANSWER_S)
        if thread.is_alive():
            self.seen = no_answer(self._device)

    def _watch(self) -> None:
        while True:
            self.seen = _with_lock(self._probe.health(self._device), self.seen)
            if self._over.wait(STATE_INTERVAL_S):
                return


def _with_lock(now: Health, before: Health | None) -> Health:
    """Return a reading that remembers what an earlier one saw of locked clocks: a device that idles shows nothing."""
    known = [one.clocks_locked for one in (now, before) if one is not None and one.clocks_locked is not None]
    return dataclasses.replace(now, clocks_locked=any(known) if known else None)


def state_of(probe: DeviceProbe, device: Device) -> Health:
    """Read the state of a device; one whose driver does not answer is unfit."""
    found: list[Health] = []
    errors: list[Exception] = []

    def read() -> None:
        try:
            found.append(probe.health(device))
        except Exception as error:  # noqa: BLE001 - raised again where it was asked for
            errors.append(error)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    thread.join(ANSWER_S)
    if errors:
        raise errors[0]
    return found[0] if found else no_answer(device)


def no_answer(device: Device) -> Health:
    """Return the state of a device whose driver does not answer."""
    return Health(reasons=(f"The driver of {device.name} did not answer within {ANSWER_S:g} s.",))
