"""Time one component at several sizes: each loaded for its own and alone, or one loaded for all of them, in turns."""

from __future__ import annotations

import dataclasses
import functools
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pytest_sdperf.core.clock import monotonic_s
from pytest_sdperf.core.contracts import Arrays, Runner
from pytest_sdperf.core.files.arrays import load_arrays
from pytest_sdperf.core.values import Workload
from pytest_sdperf.tasks import TaskContext
from pytest_sdperf.tasks._execution import CallRequest, Execution
from pytest_sdperf.tasks._loading import loaded_component
from pytest_sdperf.tasks.replay import prepared
from pytest_sdperf.tasks.sampling.phases import PhaseListener, Silent
from pytest_sdperf.tasks.sampling.timing import without_collections

WARM = 2
"""Calls at each size before any is timed."""


@dataclass(frozen=True)
class TimeSizes:
    """Time a component at several sizes.

    Attributes:
        case: The component.
        calls: One of each size.
        rounds: How often each is timed.
    """

    case: Execution
    calls: tuple[CallRequest, ...]
    rounds: int


@dataclass(frozen=True)
class SizesTimed:
    """What a component took at several sizes.

    Attributes:
        medians_s: Name of a call -> median of its timed runs in seconds.
        prepared: Graphs that the engine had compiled when the timed calls began, and when they ended; empty where it
            cannot tell, and where each size was loaded alone.
    """

    medians_s: Mapping[str, float]
    prepared: tuple[int, ...] = ()


def alone(request: TimeSizes, context: TaskContext) -> SizesTimed:
    """Load the component for one size after the other, and time calls of that size."""
    medians_s = {}
    for number, call in enumerate(request.calls):
        own = dataclasses.replace(request.case, workload=call.workload)
        with loaded_component(own, own.component, context) as loaded:
            ask = functools.partial(_call, loaded.runner, load_arrays(call.inputs))
            _warm_up([ask] * WARM, Silent() if number else context.listener)
            with without_collections():
                times = [_timed(ask) for _ in range(request.rounds)]
        medians_s[call.name] = statistics.median(times)
    return SizesTimed(medians_s)


def turns(request: TimeSizes, context: TaskContext) -> SizesTimed:
    """Load the component once, and time calls whose size changes from each to the next."""
    with loaded_component(request.case, request.case.component, context) as loaded:
        runner = loaded.runner
        calls = [(call.name, call.workload, load_arrays(call.inputs)) for call in request.calls]
        times: dict[str, list[float]] = {name: [] for name, _, _ in calls}
        once = [functools.partial(_call, runner, inputs, size) for _, size, inputs in calls]
        _warm_up(once * WARM, context.listener)
        before = prepared([runner])
        with without_collections():
            for _ in range(request.rounds):
                for name, size, inputs in calls:
                    times[name].append(_timed(functools.partial(_call, runner, inputs, size)))
        medians_s = {name: statistics.median(found) for name, found in times.items()}
        return SizesTimed(medians_s, (*before, *prepared([runner])))


def _warm_up(calls: Sequence[Callable[[], None]], listener: PhaseListener) -> None:
    """Make the calls that are not timed; the suite may read the state of the device during the first of them."""
    with listener.phase("first_run"):
        calls[0]()
    with listener.phase("warmup"):
        for call in calls[1:]:
            call()


def _call(runner: Runner, inputs: Arrays, size: Workload | None = None) -> None:
    """Give the inputs and wait for the outputs: changing the size is part of the call that needs it."""
    if size is not None:
        runner.resize(size)
    runner.bind(inputs)
    runner.run()
    runner.synchronize()


def _timed(call: Callable[[], None]) -> float:
    start_s = monotonic_s()
    call()
    return monotonic_s() - start_s
