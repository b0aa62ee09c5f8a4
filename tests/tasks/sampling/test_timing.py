"""The timed part of a sample, on a clock that the test owns."""

from __future__ import annotations

import contextlib
import dataclasses
import mmap

import pytest
from sample_values import measurement

from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.judging.verdict import judge
from pytest_sdperf.core.values.outcomes import Outcome
from pytest_sdperf.tasks.sampling.phases import PhaseListener
from pytest_sdperf.tasks.sampling.timing import TimingPlan, take_sample


class FakeDevice(PhaseListener):
    """A device whose calls take the given seconds, and a listener that remembers what happened in which phase."""

    def __init__(self, seconds):
        self.seconds = list(seconds)
        self.now = 0.0
        self.calls = 0
        self.log = []

    def clock(self):
        return self.now

    def call(self):
        self.now += self.seconds[min(self.calls, len(self.seconds) - 1)]
        self.calls += 1
        self.log.append("call")

    @contextlib.contextmanager
    def phase(self, name):
        self.log.append(f"+{name}")
        self.now += 100.0  # what listening costs must never be part of a time
        yield
        self.now += 100.0
        self.log.append(f"-{name}")


def sample(device, **plan):
    return take_sample(device.call, TimingPlan(**plan), listener=device, on_cpu=False, now_s=device.clock)


def test_phases_come_in_order_and_listening_is_not_timed():
    device = FakeDevice([9.0, 4.0, 1.0])
    taken = sample(device, min_iterations=2, max_iterations=2, warmup_s=1000.0)
    assert device.log == [
        *("+first_run", "call", "-first_run"),
        *("+second_run", "call", "-second_run"),
        *("+warmup", "call", "call", "call", "-warmup"),
        *("+timed", "call", "call", "-timed"),
    ]
    assert (taken.first_run_s, taken.second_run_s) == (9.0, 4.0)
    assert taken.iterations_s == (1.0, 1.0)
    assert taken.warmup_runs == 3


def test_warm_up_goes_on_until_the_last_three_agree():
    device = FakeDevice([1.0, 1.0, 3.0, 2.0, 1.5, 1.02, 1.01, 1.0])
    assert sample(device, warmup_s=1000.0).warmup_runs == 6


def test_warm_up_ends_with_its_time_although_nothing_is_steady():
    device = FakeDevice([1.0, 2.0] * 20)
    assert sample(device, warmup_s=5.0).warmup_runs == 4


def test_no_time_for_a_warm_up_means_none():
    device = FakeDevice([1.0])
    taken = sample(device, warmup_s=0.0, min_iterations=2, timed_s=1.0)
    assert device.log[-6:] == ["+warmup", "-warmup", "+timed", "call", "call", "-timed"]
    assert (taken.warmup_runs, taken.iterations_s) == (0, (1.0, 1.0))


@pytest.mark.parametrize(
    ("seconds", "plan", "count"),
    [
        (1.0, {"min_iterations": 5, "timed_s": 2.0}, 5),
        (1 / 64, {"min_iterations": 5, "max_iterations": 50, "timed_s": 0.25}, 16),
        (1 / 1024, {"min_iterations": 5, "max_iterations": 50, "timed_s": 0.25}, 50),
    ],
)
def test_timed_calls_have_a_least_a_most_and_a_time(seconds, plan, count):
    assert len(sample(FakeDevice([seconds]), **plan).iterations_s) == count


def test_host_memory_is_judged_only_on_a_cpu():
    device = FakeDevice([1.0])
    assert sample(device).second_run_bytes is None
    held = []

    def call():
        # Pages of its own that are written to: the allocator may hand out what it kept of earlier tests.
        pages = mmap.mmap(-1, 64 * 2**20)
        for offset in range(0, len(pages), mmap.PAGESIZE):
            pages[offset] = 1
        held.append(pages)
        device.now += 1.0
        if len(held) > 1:
            del held[:]

    plan = TimingPlan(min_iterations=1, max_iterations=1)
    taken = take_sample(call, plan, listener=device, on_cpu=True, now_s=device.clock)
    if taken.first_run_bytes is None:
        pytest.skip("this kernel does not tell the peak of a process")
    assert taken.memory_source == "host"
    assert taken.second_run_bytes - taken.first_run_bytes > 32 * 2**20


def test_on_a_gpu_the_process_is_watched_too_and_not_judged():
    device = FakeDevice([1.0])
    taken = sample(device, min_iterations=1, max_iterations=1)
    assert (taken.first_run_bytes, taken.second_run_bytes, taken.memory_source) == (None, None, "")
    if not taken.peaks_bytes:
        pytest.skip("this kernel does not tell the peak of a process")
    assert set(taken.peaks_bytes) == {"host"}
    assert all(peak > 2**20 for peak in taken.peaks_bytes["host"].values())


def test_the_peak_of_the_allocator_is_that_of_each_run_and_is_read_outside_timed_regions():
    device = FakeDevice([1.0])
    peaks = iter([None, 500, None, 400])

    def allocator_peak(*, reset):
        device.log.append("reset" if reset else "read")
        return next(peaks)

    plan = TimingPlan(min_iterations=1, max_iterations=1, warmup_s=0.0)
    taken = take_sample(
        device.call, plan, listener=device, on_cpu=False, allocator_peak=allocator_peak, now_s=device.clock
    )
    assert taken.peaks_bytes["allocator"] == {"first_run": 500, "second_run": 400}
    run = ["reset", "+first_run", "call", "-first_run", "read"]
    assert device.log[:10] == [*run, *(word.replace("first", "second") for word in run)]
    assert {"reset", "read"} & {*device.log[10:]} == set()


def test_an_allocator_that_cannot_tell_leaves_no_trace():
    device = FakeDevice([1.0])
    plan = TimingPlan(min_iterations=1, max_iterations=1)
    taken = take_sample(
        device.call, plan, listener=device, on_cpu=True, allocator_peak=lambda *, reset: None, now_s=device.clock
    )
    assert "allocator" not in taken.peaks_bytes


def test_a_clock_that_runs_backwards_ends_the_warm_up_and_gives_times_that_no_run_can_take():
    device = FakeDevice([-1.0])
    taken = sample(device, min_iterations=5, max_iterations=5, warmup_s=1000.0)
    assert taken.warmup_runs == 3
    assert taken.iterations_s == (-1.0,) * 5
    (verdict,) = judge(measurement_of(taken), None, policy=Policy(processes=1))
    assert (verdict.outcome, verdict.code) == (Outcome.INVALID, "latency-not-positive")
    assert verdict.sentence == "Process 1 of 1 reported a UNet time of -1 s, which no run can take."


def measurement_of(taken):
    return dataclasses.replace(measurement(), samples=(taken,))


def test_of_calls_it_tells_nothing_but_their_times():
    # Whether threads waited is told whenever the kernel counted any of their time meanwhile.
    assert sample(FakeDevice([1.0])).facts.keys() <= {"waited"}


def test_energy_has_calls_of_its_own_behind_the_timed_ones():
    device = FakeDevice([0.5])
    taken = sample(device, min_iterations=1, max_iterations=1, warmup_s=0.0, energy_s=1.25)
    assert device.log[-8:] == ["+timed", "call", "-timed", "+energy", "call", "call", "call", "-energy"]
    assert taken.iterations_s == (0.5,)
    assert taken.facts["energy"] == {"calls": 3, "seconds": 1.5}


def test_energy_takes_two_calls_of_any_length_and_none_where_nobody_asks():
    plan = {"min_iterations": 1, "max_iterations": 1, "warmup_s": 0.0}
    assert sample(FakeDevice([30.0]), **plan, energy_s=1.0).facts["energy"] == {"calls": 2, "seconds": 60.0}
    device = FakeDevice([30.0])
    assert "energy" not in sample(device, **plan).facts
    assert device.log[-1] == "-timed"
