"""Measure one build again and again in fresh processes, as it is and made slower."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, Literal

from pytest_sdperf.builds.execution.runner import CaseRunner, Run
from pytest_sdperf.checks.pipelines.measure import MOST_WAITING, Recording, ready
from pytest_sdperf.core import clock, progress
from pytest_sdperf.core.files.strict_json import convert
from pytest_sdperf.core.units import plural
from pytest_sdperf.core.values import Measurement
from pytest_sdperf.plugin.selftest.records import key_of
from pytest_sdperf.plugin.selftest.rows import slowdowns
from pytest_sdperf.tasks.slowed import MeasuredSlowed, MeasureSlowed, Slowed

Column = tuple[float | None, ...]


@dataclasses.dataclass(frozen=True)
class Measured:
    """What the processes of a self-test told until now.

    Attributes:
        measurement: Their samples, with the state of the machine.
        medians_s, obtained, waited: As in `records.SelfTestRun`.
    """

    measurement: Measurement
    medians_s: Mapping[str, Column]
    obtained: Mapping[str, Column]
    waited: Mapping[str, Column]


def measure_selftest(runner: CaseRunner, *, first: int, going_on: Callable[[int, float], bool]) -> Iterator[Measured]:
    """Take one sample in each of many fresh processes, one after the other; yield all of them after every few.

    A process that cannot load, runs out of memory, crashes or hangs ends it with a `Failure`.

    Args:
        runner: The case.
        first: Number of the first process, for the schedule.
        going_on: Whether one more may begin, by how many there were and how many seconds the slowest of the last few
            took.
    """
    recording, told, seconds = Recording(runner), list[Sequence[Slowed]](), [0.0]
    ready(recording)
    if recording.failure is not None:
        yield _measured(recording, told)

    def one_more() -> bool:
        return going_on(len(recording.samples), max(seconds[-2 * MOST_WAITING :]))

    while recording.failure is None and one_more():
        begin_s = clock.monotonic_s()
        with recording.until_failure(), contextlib.closing(_few(recording, told, first=first)) as few:
            for _ in few:
                now_s = clock.monotonic_s()
                seconds.append(now_s - begin_s)
                begin_s = now_s
                if not one_more():
                    break
        yield _measured(recording, told)


def _few(recording: Recording, told: list[Sequence[Slowed]], *, first: int) -> Generator[None, None, None]:
    """Start some processes and let one after the other measure; yield after each."""
    runner, begun = recording.runner, len(recording.samples)
    on_cpu, what = runner.context.device.kind == "cpu", f"{runner.case.model} {runner.case.component}"
    request = MeasureSlowed(recording.request.case, recording.request.plan)
    with contextlib.ExitStack() as stack:
        with progress.step(f"starting {plural(MOST_WAITING, 'process', 'processes')} of the self-test of {what}"):
            workers = stack.enter_context(runner.workers("measure", request, count=MOST_WAITING, module="slowed"))
        for number, worker in enumerate(workers, begun):
            asked = slowdowns(first + number, on_cpu=on_cpu)
            with progress.step(f"measuring {what}, process {number + 1}, {', '.join(f'+{one:.0%}' for one in asked)}"):
                recording.take(_telling(worker, dataclasses.replace(request, slowdowns=asked), told))
            yield


def _telling(worker: Run, request: MeasureSlowed, told: list[Sequence[Slowed]]) -> Run:
    """Return a process that is asked for slowdowns, and adds what became of them to `told`."""

    def run(**how: Any) -> dict[str, Any]:
        answer = worker(arguments=request, **how)
        told.append(convert(answer, MeasuredSlowed).slowed)
        return answer

    return run


def _measured(recording: Recording, told: Sequence[Sequence[Slowed]]) -> Measured:
    # One more tells of it than there are samples where its sample was refused.
    processes = [{one.asked: one for one in slowed} for slowed in told[: len(recording.samples)]]
    shares = sorted({share for process in processes for share in process})

    def column(share: float, name: Literal["median_s", "obtained", "waited"]) -> Column:
        return tuple(getattr(process.get(share), name, None) for process in processes)

    plain: Column = tuple(sample.median_s for sample in recording.samples)
    waited: Column = tuple(sample.facts.get("waited") for sample in recording.samples)
    return Measured(
        recording.measured(),
        {"0": plain, **{key_of(share): column(share, "median_s") for share in shares}},
        {key_of(share): column(share, "obtained") for share in shares},
        {"0": waited, **{key_of(share): column(share, "waited") for share in shares}},
    )
