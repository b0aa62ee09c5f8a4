"""The timed part of a sample: two first runs, warm-up until steady, then synchronized calls.

Runs in the worker, so it imports the standard library only.
"""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from pytest_sdperf.core.clock import Clock, monotonic_s
from pytest_sdperf.core.machine import host_memory
from pytest_sdperf.core.machine.host_processor import watch_waiting
from pytest_sdperf.core.values import Facts, Sample
from pytest_sdperf.tasks.sampling.instruments import instruments_of_worker
from pytest_sdperf.tasks.sampling.phases import PhaseListener

ENERGY = "energy"  # the phase in which the suite reads what the device takes
# What is read begins and ends somewhere inside a call: of two calls less of it matters.
_FOR_ENERGY = 2


class AllocatorPeak(Protocol):
    """Tells the peak of an allocator in bytes, as `contracts.Runner.allocator_peak_bytes` does."""

    def __call__(self, *, reset: bool) -> int | None:
        """Return the peak since the last reset, and begin a new one if asked to."""


@dataclass(frozen=True)
class TimingPlan:
    """How many calls a sample takes.

    Attributes:
        min_iterations, max_iterations: Bounds of the number of timed calls.
        timed_s: Timed calls stop after this many seconds, once there are enough.
        warmup_s: Warm-up stops after this many seconds even if times still move; 0 makes no warm-up at all, because
            the first and the second run were one.
        steady: Warm-up ends when the last three calls lie within this relative spread.
        energy_s: After the timed ones so many seconds of calls, and at least two, in which nobody is timed and the
            suite reads what the device takes; 0 makes none.
    """

    min_iterations: int = 5
    max_iterations: int = 50
    timed_s: float = 1.0
    warmup_s: float = 2.0
    steady: float = 0.05
    energy_s: float = 0.0


@dataclass(frozen=True)
class Block:
    """Timed calls.

    Attributes:
        iterations_s: Seconds of each.
        waited: Share of the time of this process's threads that they waited for a processor; None where nobody knows.
    """

    iterations_s: tuple[float, ...] = ()
    waited: float | None = None

    @property
    def facts(self) -> Facts:
        """What is known beside the times."""
        return {} if self.waited is None else {"waited": self.waited}


Timing = Callable[[Callable[[], None], TimingPlan, Clock], Block]


@contextmanager
def without_collections() -> Iterator[None]:
    """Collect garbage now and not inside: in the middle of a call it would be measured as the engine's time."""
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def timed(call: Callable[[], None], plan: TimingPlan, now_s: Clock) -> Block:
    """Time calls until there are enough of them."""
    iterations_s: list[float] = []
    with without_collections(), watch_waiting() as waited:
        begin_s = now_s()
        while len(iterations_s) < plan.max_iterations:
            start_s = now_s()
            call()
            end_s = now_s()
            iterations_s.append(end_s - start_s)
            if len(iterations_s) >= plan.min_iterations and end_s - begin_s >= plan.timed_s:
                break
    return Block(tuple(iterations_s), waited.share)


def take_sample(
    call: Callable[[], None],
    plan: TimingPlan,
    *,
    listener: PhaseListener,
    on_cpu: bool,
    allocator_peak: AllocatorPeak | None = None,
    timing: Timing = timed,
    now_s: Clock = monotonic_s,
) -> Sample:
    """Time a call that returns only when the device has finished.

    Args:
        call: One complete, synchronized request.
        plan: How often to call.
        listener: Told about the phases; the suite watches device memory during the first two.
        on_cpu: The device is the host: its own peak memory is the one that is judged.
        allocator_peak: Tells the peak of the engine's own allocator.
        timing: Times the calls when they are warm.
        now_s: The clock.

    Returns:
        A sample whose `load_s` and further `facts` are left to the caller. Its facts hold `waited`, the share of their
        time that the threads of this process waited for a processor, where the kernel tells, and of a worker whose
        code is watched `instrumented`, what watches. Of `energy` they hold the calls and their seconds; what the device
        took meanwhile the suite knows.
    """
    peaks = _Peaks(allocator_peak)
    first_s = _watched_run(call, "first_run", listener, peaks, now_s=now_s)
    second_s = _watched_run(call, "second_run", listener, peaks, now_s=now_s)
    with listener.phase("warmup"):
        warmup_runs = _warm_up(call, plan, now_s)
    with listener.phase("timed"):
        block = timing(call, plan, now_s)
    watched = instruments_of_worker()
    facts: Facts = {**block.facts, **_for_energy(call, plan, listener, now_s=now_s)}
    if watched:
        facts["instrumented"] = watched
    return Sample(
        iterations_s=block.iterations_s,
        first_run_s=first_s,
        second_run_s=second_s,
        first_run_bytes=peaks.host.get("first_run") if on_cpu else None,
        second_run_bytes=peaks.host.get("second_run") if on_cpu else None,
        memory_source="host" if on_cpu and peaks.host else "",
        peaks_bytes={way: runs for way, runs in (("allocator", peaks.allocator), ("host", peaks.host)) if runs},
        warmup_runs=warmup_runs,
        facts=facts,
    )


class _Peaks:
    """Peak memory that the worker itself can tell, by run: of its process, and of the engine's own allocator."""

    def __init__(self, allocator_peak: AllocatorPeak | None) -> None:
        self.host: dict[str, int] = {}
        self.allocator: dict[str, int] = {}
        self._allocator_peak = allocator_peak

    @contextmanager
    def of_run(self, run: str) -> Iterator[None]:
        """Record the peaks of one run; both are read when it is over."""
        can_watch = host_memory.reset_peak()
        if self._allocator_peak is not None:
            self._allocator_peak(reset=True)
        yield
        host = host_memory.peak_bytes() if can_watch else None
        allocator = self._allocator_peak(reset=False) if self._allocator_peak is not None else None
        for peaks, peak in ((self.host, host), (self.allocator, allocator)):
            if peak is not None:
                peaks[run] = peak


def _watched_run(
    call: Callable[[], None], phase: str, listener: PhaseListener, peaks: _Peaks, *, now_s: Clock
) -> float:
    with peaks.of_run(phase), listener.phase(phase):
        start_s = now_s()
        call()
        return now_s() - start_s


def _for_energy(call: Callable[[], None], plan: TimingPlan, listener: PhaseListener, *, now_s: Clock) -> Facts:
    """Repeat the call while the suite reads a counter that moves some ten times a second."""
    if not plan.energy_s:
        return {}
    calls = 0
    with listener.phase(ENERGY), without_collections():
        begin_s = now_s()
        while calls < _FOR_ENERGY or now_s() - begin_s < plan.energy_s:
            call()
            calls += 1
        took_s = now_s() - begin_s
    return {"energy": {"calls": calls, "seconds": took_s}}


def _warm_up(call: Callable[[], None], plan: TimingPlan, now_s: Clock) -> int:
    recent_s: list[float] = []
    begin_s = now_s()
    runs = 0
    while plan.warmup_s > 0:
        start_s = now_s()
        call()
        end_s = now_s()
        runs += 1
        recent_s = [*recent_s[-2:], end_s - start_s]
        spread_s = max(recent_s) - min(recent_s)
        if len(recent_s) == 3 and spread_s <= plan.steady * abs(statistics.median(recent_s)):
            return runs
        if end_s - begin_s >= plan.warmup_s:
            break
    return runs
