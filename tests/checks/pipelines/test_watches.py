"""What is seen of a device while a worker runs, and when it is looked at."""

from __future__ import annotations

import itertools
import threading

import pytest
from door_toys import ToyProbe

from pytest_sdperf.builds.processes.events import Event
from pytest_sdperf.checks.pipelines import watches
from pytest_sdperf.checks.pipelines.watches import EnergyWatch, MemoryWatch, StateWatch
from pytest_sdperf.core.device import Device, Health
from pytest_sdperf.core.errors import DeviceMissingError
from pytest_sdperf.core.values import Sample

CPU = Device("cpu", "A CPU", "cpu-a-2c")
CARD = Device("cuda", "NVIDIA T4", "t4", uuid="GPU-1")


def test_the_memory_of_the_whole_device_is_what_is_judged_and_other_ways_stay(monkeypatch):
    probe = ToyProbe(CARD)
    used = iter([1000, 5000])
    monkeypatch.setattr(probe, "memory_used_bytes", lambda device: next(used, 4000))
    watch = MemoryWatch(probe, CARD)
    for run in ("load", "first_run", "second_run", "timed"):
        watch.on_event(Event("begin", run))
        watch.on_event(Event("end", run))
    host = {"first_run": 70, "second_run": 60}
    seen = watch.add_to(Sample((0.01,), peaks_bytes={"host": host}))
    assert (seen.memory_source, seen.first_run_bytes, seen.second_run_bytes) == ("device", 4000, 3000)
    assert seen.peaks_bytes == {"host": host, "device": {"first_run": 4000, "second_run": 3000}}


class Busy(ToyProbe):
    """A card that tells how often it was asked."""

    def __init__(self, device: Device) -> None:
        super().__init__(device)
        self.asked = threading.Semaphore(0)
        self.readings = 0

    def health(self, device: Device) -> Health:
        self.readings += 1
        self.asked.release()
        return Health(sm_clock_mhz=1000 + self.readings)


def test_the_state_is_read_in_the_first_run_and_never_after_it():
    probe = Busy(CARD)
    watch = StateWatch(probe, CARD)
    watch.on_event(Event("begin", "load"))
    watch.on_event(Event("end", "load"))
    assert probe.readings == 0
    watch.on_event(Event("begin", "first_run"))
    for _ in range(2):
        assert probe.asked.acquire(timeout=10)
    watch.on_event(Event("end", "first_run"))
    watch.close()
    read = probe.readings
    assert watch.seen == Health(sm_clock_mhz=1000 + read)
    watch.on_event(Event("begin", "timed"))
    watch.close()
    assert probe.readings == read >= 2


def test_of_a_processor_nothing_is_read():
    probe = Busy(CPU)
    watch = StateWatch(probe, CPU)
    watch.on_event(Event("begin", "first_run"))
    watch.close()
    assert (watch.seen, probe.readings) == (None, 0)


class Slow(ToyProbe):
    """A card whose driver answers when it is told to."""

    def __init__(self, device: Device) -> None:
        super().__init__(device)
        self.asked, self.answers = threading.Event(), threading.Event()

    def health(self, device: Device) -> Health:
        self.asked.set()
        assert self.answers.wait(30)
        return Health(sm_clock_mhz=1000)

    def memory_used_bytes(self, device: Device) -> int:
        self.health(device)
        return 1000


def test_the_warm_up_does_not_begin_while_the_state_is_still_read():
    probe = Slow(CARD)
    watch, log = StateWatch(probe, CARD), []
    watch.on_event(Event("begin", "first_run"))
    assert probe.asked.wait(30)
    watch.on_event(Event("end", "first_run"))

    def warm_up():
        watch.on_event(Event("begin", "warmup"))
        log.append("warming up")

    worker = threading.Thread(target=warm_up)
    worker.start()
    worker.join(0.2)
    log.append("answered")
    probe.answers.set()
    worker.join(30)
    assert log == ["answered", "warming up"]
    assert watch.seen == Health(sm_clock_mhz=1000)


def test_a_driver_that_does_not_answer_leaves_the_device_unfit(monkeypatch):
    monkeypatch.setattr(watches, "ANSWER_S", 0.1)
    probe = Slow(CARD)
    watch = StateWatch(probe, CARD)
    watch.on_event(Event("begin", "first_run"))
    watch.on_event(Event("begin", "warmup"))
    unfit = Health(reasons=("The driver of NVIDIA T4 did not answer within 0.1 s.",))
    assert (watch.seen, watches.state_of(probe, CARD)) == (unfit, unfit)
    watch.close()
    probe.answers.set()


def test_what_a_driver_refuses_is_raised_where_it_was_asked_for(monkeypatch):
    probe = ToyProbe(CARD)

    def refuse(device):
        raise DeviceMissingError("it fell off the bus")

    monkeypatch.setattr(probe, "health", refuse)
    with pytest.raises(DeviceMissingError) as caught:
        watches.state_of(probe, CARD)
    assert str(caught.value) == "it fell off the bus"


def test_a_memory_reading_that_never_ends_is_no_peak(monkeypatch):
    monkeypatch.setattr(watches, "ANSWER_S", 0.1)
    probe = Slow(CARD)
    probe.answers.set()
    watch = MemoryWatch(probe, CARD)
    probe.answers.clear()
    probe.asked.clear()
    watch.peaks_bytes["first_run"] = 3000
    watch.on_event(Event("begin", "second_run"))
    assert probe.asked.wait(30)
    watch.on_event(Event("end", "second_run"))
    assert watch.peaks_bytes == {}
    probe.answers.set()


class Counting(ToyProbe):
    """A card whose counter of energy shows these joules one after the other, and the last one for ever."""

    def __init__(self, *joules: float | None) -> None:
        super().__init__(CARD)
        self.joules, self.read = list(joules), threading.Event()

    def energy_j(self, device: Device) -> float | None:
        if len(self.joules) == 1:
            self.read.set()
            return self.joules[0]
        return self.joules.pop(0)


@pytest.fixture
def ticking(monkeypatch):
    """A clock that is a second later at each look."""
    seconds = itertools.count(100)
    monkeypatch.setattr(watches.clock, "monotonic_s", lambda: float(next(seconds)))
    monkeypatch.setattr(watches, "WATCH_INTERVAL_S", 0.0)


REPEATED = Sample((0.01,), facts={"threads": "4", "energy": {"calls": 50, "seconds": 2.0}})


def energy_of(probe: Counting, *, repeated: Sample = REPEATED, images: int = 0) -> Sample:
    watch = EnergyWatch(probe, CARD)
    for phase in ("first_run", "timed"):
        watch.on_event(Event("begin", phase))
        watch.on_event(Event("end", phase))
    watch.on_event(Event("begin", "energy"))
    assert probe.read.wait(30)
    watch.on_event(Event("end", "energy"))
    return watch.add_to(repeated, images=images)


@pytest.mark.parametrize(("images", "made"), [(0, {}), (4, {"images": 4})])
def test_power_is_what_the_counter_grew_between_its_first_and_its_last_change(ticking, images, made):
    # It shows 70 J from before the phase; the changes are at 100, 101 and 102 s.
    seen = energy_of(Counting(70.0, 70.0, 500.0, 500.0, None, 800.0, 1700.0), images=images)
    assert seen.facts == {
        "threads": "4",
        "energy": {"calls": 50, "seconds": 2.0, "watts": 600.0, "joules_per_call": 24.0, **made},
    }


@pytest.mark.parametrize(
    ("joules", "why"),
    [
        ((70.0,), "the energy counter of NVIDIA T4 changed 0 times while calls were repeated"),
        ((70.0, 500.0), "the energy counter of NVIDIA T4 changed 1 time while calls were repeated"),
        ((70.0, 500.0, 30.0), "the energy counter of NVIDIA T4 did not grow while calls were repeated"),
    ],
)
def test_a_counter_that_says_too_little_is_no_number(ticking, joules, why):
    assert energy_of(Counting(*joules)).facts == {"threads": "4", "energy_not_available": why}


def test_a_device_that_tells_no_energy_has_a_reason_and_a_processor_has_nothing():
    asked = Sample((0.01,), facts={"threads": "4"})
    told = EnergyWatch(ToyProbe(CARD), CARD).add_to(asked, images=0)
    assert told.facts["energy_not_available"] == "the driver tells no energy counter of NVIDIA T4"
    assert EnergyWatch(ToyProbe(CPU), CPU).add_to(asked, images=0) == asked


def test_a_counter_that_is_never_answered_is_no_number(monkeypatch):
    monkeypatch.setattr(watches, "ANSWER_S", 0.1)
    probe = Slow(CARD)
    monkeypatch.setattr(probe, "energy_j", lambda device: float(probe.memory_used_bytes(device)))
    watch = EnergyWatch(probe, CARD)
    watch.on_event(Event("begin", "energy"))
    assert probe.asked.wait(30)
    watch.close()
    assert watch.add_to(REPEATED, images=0).facts["energy_not_available"] == (
        "the driver of NVIDIA T4 did not answer within 0.1 s"
    )
    probe.answers.set()
