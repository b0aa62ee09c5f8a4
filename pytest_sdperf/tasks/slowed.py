"""Measure a case as it is and made slower on purpose, for the self-test."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pytest_sdperf.core.clock import Clock
from pytest_sdperf.core.components import PIPELINE
from pytest_sdperf.core.values import Sample
from pytest_sdperf.tasks import TaskContext, component, external_pipeline, pipeline
from pytest_sdperf.tasks._execution import Execution, MeasureCase
from pytest_sdperf.tasks.sampling.timing import Block, TimingPlan, timed


@dataclass(frozen=True)
class MeasureSlowed:
    """Measure a case in a fresh process, and in it how long calls take that are made longer.

    Attributes:
        case: The case.
        plan: How many calls are timed at each slowdown.
        slowdowns: Calls are timed once for each of these, in this order, each of them made longer by this share of
            itself; 0 among them is the sample.
    """

    case: Execution
    plan: TimingPlan
    slowdowns: tuple[float, ...] = (0.0,)


@dataclass(frozen=True)
class Slowed:
    """What became of calls that were made longer.

    Attributes:
        asked, obtained: The share by which they were to be longer, and by which they were.
        median_s: Seconds of the median call.
        waited: Share of their time that the threads of the process waited for a processor; None where nobody knows.
    """

    asked: float
    obtained: float
    median_s: float
    waited: float | None


@dataclass(frozen=True)
class MeasuredSlowed:
    """What a process measured.

    Attributes:
        sample: Of the calls as they are.
        slowed: Of the others, in the order in which they were timed.
    """

    sample: Sample
    slowed: tuple[Slowed, ...]


def measure(request: MeasureSlowed, context: TaskContext) -> MeasuredSlowed:
    """Measure the case as every measurement does, and time it slowed beside; what ran is not looked at."""
    case, timing = request.case, EachSlowdown(request.slowdowns)
    task = external_pipeline if case.own is not None else pipeline if case.component == PIPELINE else component
    measured = task.measure(MeasureCase(case, request.plan, what_ran=False), context, timing=timing)
    return MeasuredSlowed(measured.sample, tuple(timing.found))


class EachSlowdown:
    """Times calls once for each slowdown.

    Args:
        slowdowns: As in `MeasureSlowed`.
    """

    def __init__(self, slowdowns: Sequence[float]) -> None:
        self._slowdowns = slowdowns
        self.found: list[Slowed] = []

    def __call__(self, call: Callable[[], None], plan: TimingPlan, now_s: Clock) -> Block:
        """Return the calls that were not slowed."""
        plain = Block()
        for asked in self._slowdowns:
            if not asked:
                plain = timed(call, plan, now_s)
                continue
            slowed = _SlowedCall(call, asked, now_s)
            block = timed(slowed, plan, now_s)
            obtained = statistics.median(slowed.obtained) if slowed.obtained else 0.0
            self.found.append(Slowed(asked, obtained, statistics.median(block.iterations_s), block.waited))
        return plain


class _SlowedCall:
    """A call that takes longer than it has to: when the device has finished, the host waits, busily.

    The wait is a share of the very call before it. A build that is slower by a share is so in every state of its
    machine: what stretches a call stretches what was added to it. A wait of fixed length would be another share
    wherever the calls have become slower or faster since it was chosen.
    """

    def __init__(self, call: Callable[[], None], share: float, now_s: Clock) -> None:
        self._call, self._share, self._now_s = call, share, now_s
        self.obtained: list[float] = []

    def __call__(self) -> None:
        """Call, then wait; what was obtained is measured, and not what was asked for."""
        start_s = self._now_s()
        self._call()
        done_s = now_s = self._now_s()
        wait_s = self._share * (done_s - start_s)
        while now_s - done_s < wait_s:
            now_s = self._now_s()
        if done_s > start_s:
            self.obtained.append((now_s - done_s) / (done_s - start_s))
