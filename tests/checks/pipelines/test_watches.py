"""What is seen of a device while a worker runs, and when it is looked at."""

from __future__ import annotations

import threading

import pytest
from door_toys import ToyProbe

from pytest_sdperf.builds.processes.process import Event
from pytest_sdperf.checks.pipelines import watches
from pytest_sdperf.checks.pipelines.watches import MemoryWatch, StateWatch
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
