"""What the suite sees of a device while a worker runs: its memory, its state and the energy that it takes.

The suite polls from its own process, so that a worker needs no vendor library, and never while something is timed: a
worker waits before its warm-up until nothing is read any more.
"""

from __future__ import annotations

import dataclasses
import threading
from abc import ABC, abstractmethod
from collections.abc import Collection

from pytest_sdperf.builds.processes.events import Event
from pytest_sdperf.core import clock
from pytest_sdperf.core.device import Device, DeviceProbe, Health
from pytest_sdperf.core.units import plural
from pytest_sdperf.core.values import Facts, Sample
from pytest_sdperf.tasks.sampling.timing import ENERGY
from pytest_sdperf.tasks.worker import QUIET

WATCHED_PHASES = ("first_run", "second_run")
WATCH_INTERVAL_S = 0.005
STATE_INTERVAL_S = 0.25
# What a driver may take to answer; one that takes longer holds whoever asks for ever.
ANSWER_S = 10.0


class PhaseWatch(ABC):
    """Follows a worker's events and reads something of its device every few milliseconds during some phases.

    Args:
        probe: Reads the device.
        device: The device.
        phases: Names of the phases; empty where there is nothing to read.
    """

    def __init__(self, probe: DeviceProbe, device: Device, phases: Collection[str]) -> None:
        self._probe, self._device, self._phases = probe, device, phases
        self._stop: threading.Event | None = None
        self._thread: threading.Thread | None = None

    @abstractmethod
    def look(self, phase: str) -> None:
        """Read once, in a thread beside the worker."""

    @abstractmethod
    def forget(self) -> None:
        """Hear that the driver did not answer: what was read until then is not all of it."""

    def on_event(self, event: Event) -> None:
        """Start or stop watching at the border of a phase."""
        if event.text not in self._phases:
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
                self.forget()
            self._stop = self._thread = None

    def _watch(self, phase: str, stop: threading.Event) -> None:
        while True:
            # Look once more after the end: an arena keeps what the run allocated.
            last = stop.is_set()
            self.look(phase)
            if last:
                return
            clock.sleep_s(WATCH_INTERVAL_S)


class MemoryWatch(PhaseWatch):
    """Records the device's peak memory during the first and the second run of a worker."""

    def __init__(self, probe: DeviceProbe, device: Device) -> None:
        self._before = probe.memory_used_bytes(device) if device.kind != "cpu" else None
        super().__init__(probe, device, () if self._before is None else WATCHED_PHASES)
        self.peaks_bytes: dict[str, int] = {}

    def look(self, phase: str) -> None:
        """Keep the largest."""
        used = self._probe.memory_used_bytes(self._device)
        if used is not None and self._before is not None:
            self.peaks_bytes[phase] = max(self.peaks_bytes.get(phase, 0), used - self._before)

    def forget(self) -> None:
        """Forget all: what was read last may not be the peak."""
        self.peaks_bytes.clear()

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


class EnergyWatch(PhaseWatch):
    """Records what the device takes while a worker repeats its call behind the timed ones.

    A counter of energy moves some ten times a second, so power is what it grew between its first and its last change in
    that time, over the time between these two; what it shows at the borders of the phase is older than they are.
    """

    def __init__(self, probe: DeviceProbe, device: Device) -> None:
        super().__init__(probe, device, (ENERGY,))
        self._last: float | None = None
        self._changes: list[tuple[float, float]] = []  # when, and to how many joules
        self._silent = False

    def look(self, phase: str) -> None:
        """Keep each change."""
        joules = self._probe.energy_j(self._device)
        if joules is None:
            return
        if self._last is not None and joules != self._last:
            self._changes.append((clock.monotonic_s(), joules))
        self._last = joules

    def forget(self) -> None:
        """Remember that the driver did not answer."""
        self._silent = True

    def add_to(self, sample: Sample, *, images: int) -> Sample:
        """Return the sample with what its calls took, or with the reason why nobody knows.

        Args:
            sample: Of a worker that repeated its call, or was not asked to because its device does not tell.
            images: How many images a call makes; 0 for a component alone.
        """
        if self._device.kind == "cpu":
            return sample
        facts: Facts = {**sample.facts}
        repeated = facts.pop("energy", None)
        why = self._unknown() if repeated is not None else f"the driver tells no energy counter of {self._device.name}"
        if repeated is None or why:
            facts["energy_not_available"] = why
        else:
            (first_s, first), (last_s, last) = self._changes[0], self._changes[-1]
            watts = (last - first) / (last_s - first_s)
            joules = watts * repeated["seconds"] / repeated["calls"]
            facts["energy"] = {**repeated, "watts": watts, "joules_per_call": joules}
            if images:
                facts["energy"]["images"] = images
        return dataclasses.replace(sample, facts=facts)

    def _unknown(self) -> str:
        """Say why the counter tells no power; empty where it does."""
        changes, of = self._changes, f"of {self._device.name}"
        if self._silent:
            return f"the driver {of} did not answer within {ANSWER_S:g} s"
        if len(changes) < 2:
            return f"the energy counter {of} changed {plural(len(changes), 'time')} while calls were repeated"
        (first_s, first), (last_s, last) = changes[0], changes[-1]
        grew = last > first and last_s > first_s
        return "" if grew else f"the energy counter {of} did not grow while calls were repeated"


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
