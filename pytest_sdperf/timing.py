"""The timed part of a sample: two first runs, warm-up until steady, then synchronized calls.

Runs in the worker, so it imports the standard library only.
"""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable
from dataclasses import dataclass

from pytest_sdperf import host_memory
from pytest_sdperf.clock import Clock, monotonic_s
from pytest_sdperf.contracts import PhaseListener
from pytest_sdperf.values import Sample


@dataclass(frozen=True)
class TimingPlan:
    """How many calls a sample takes.

    Attributes:
        min_iterations, max_iterations: Bounds of the number of timed calls.
        timed_s: Timed calls stop after this many seconds, once there are enough.
        warmup_s: Warm-up stops after this many seconds even if times still move; 0 makes no warm-up at all, because
            the first and the second run were one.
        steady: Warm-up ends when the last three calls lie within this relative spread.
    """

    min_iterations: int = 5
    max_iterations: int = 50
    timed_s: float = 1.0
    warmup_s: float = 2.0
    steady: float = 0.05


def take_sample(
    call: Callable[[], None],
    plan: TimingPlan,
    *,
    listener: PhaseListener,
    watch_host: bool,
    now_s: Clock = monotonic_s,
) -> Sample:
    """Time a call that returns only when the device has finished.

    Args:
        call: One complete, synchronized request.
        plan: How often to call.
        listener: Told about the phases; the suite watches device memory during the first two.
        watch_host: Record this process's own peak memory (runs on a CPU).
        now_s: The clock.

    Returns:
        A sample whose `load_s` and `facts` are left to the caller.
    """
    first_s, first_bytes = _watched_run(call, "first_run", listener, watch_host=watch_host, now_s=now_s)
    second_s, second_bytes = _watched_run(call, "second_run", listener, watch_host=watch_host, now_s=now_s)
    with listener.phase("warmup"):
        warmup_runs = _warm_up(call, plan, now_s)
    with listener.phase("timed"):
        iterations_s = _timed(call, plan, now_s)
    return Sample(
        iterations_s=iterations_s,
        first_run_s=first_s,
        second_run_s=second_s,
        first_run_bytes=first_bytes,
        second_run_bytes=second_bytes,
        memory_source="host" if second_bytes is not None else "",
        warmup_runs=warmup_runs,
    )


def _watched_run(
    call: Callable[[], None], phase: str, listener: PhaseListener, *, watch_host: bool, now_s: Clock
) -> tuple[float, int | None]:
    can_watch = watch_host and host_memory.reset_peak()
    with listener.phase(phase):
        start_s = now_s()
        call()
        elapsed_s = now_s() - start_s
    return elapsed_s, host_memory.peak_bytes() if can_watch else None


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


def _timed(call: Callable[[], None], plan: TimingPlan, now_s: Clock) -> tuple[float, ...]:
    iterations_s: list[float] = []
    # A collection in the middle of a call would be measured as the engine's time.
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        begin_s = now_s()
        while len(iterations_s) < plan.max_iterations:
            start_s = now_s()
            call()
            end_s = now_s()
            iterations_s.append(end_s - start_s)
            if len(iterations_s) >= plan.min_iterations and end_s - begin_s >= plan.timed_s:
                break
    finally:
        if was_enabled:
            gc.enable()
    return tuple(iterations_s)
