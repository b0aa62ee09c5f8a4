"""Measure one build again and again in fresh processes, as it is and made slower."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Literal

from pytest_sdperf.builds.execution.runner import CaseRunner
from pytest_sdperf.checks.pipelines.measure import MOST_WAITING, Recording, plan_of, ready
from pytest_sdperf.core import clock
from pytest_sdperf.core.errors import WorkerError
from pytest_sdperf.core.units import plural
from pytest_sdperf.core.values import Measurement, Sample
from pytest_sdperf.plugin.selftest.records import key_of
from pytest_sdperf.plugin.selftest.schedule import slowdowns

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


def measure_selftest(
    runner: CaseRunner, *, first: int, going_on: Callable[[int, float], bool], say: Callable[[str], None]
) -> Iterator[Measured]:
    """Take one sample in each of many fresh processes, one after the other; yield all of them after every few.

    A process that cannot load, runs out of memory, crashes or hangs ends it with a `Failure`.

    Args:
        runner: The case.
        first: Number of the first process, for the schedule.
        going_on: Whether one more may begin, by how many there were and how many seconds the slowest of the last few
            took.
        say: Prints one line of progress.
    """
    recording, seconds = Recording(runner), [0.0]
    ready(recording)
    if recording.failure is not None:
        yield _measured(recording)

    def one_more() -> bool:
        return going_on(len(recording.samples), max(seconds[-2 * MOST_WAITING :]))

    while recording.failure is None and one_more():
        begin_s = clock.monotonic_s()
        with recording.until_failure(), contextlib.closing(_few(recording, runner, first=first, say=say)) as few:
            for _ in few:
                now_s = clock.monotonic_s()
                seconds.append(now_s - begin_s)
                begin_s = now_s
                if not one_more():
                    break
        yield _measured(recording)


def _few(
    recording: Recording, runner: CaseRunner, *, first: int, say: Callable[[str], None]
) -> Generator[None, None, None]:
    """Start some processes and let one after the other measure; yield after each."""
    plan, on_cpu, begun = plan_of(runner), runner.context.device.kind == "cpu", len(recording.samples)
    what = f"{runner.case.model} {runner.case.component}"
    say(f"starting {plural(MOST_WAITING, 'process', 'processes')} of the self-test of {what}")
    with runner.workers("measure", recording.request, count=MOST_WAITING) as workers:
        for number, worker in enumerate(workers, begun):
            asked = slowdowns(first + number, on_cpu=on_cpu)
            request = dataclasses.replace(recording.request, plan=dataclasses.replace(plan, slowdowns=asked))
            say(f"measuring {what}: process {number + 1}, {', '.join(f'+{share:.0%}' for share in asked)}")
            recording.take(functools.partial(worker, arguments=request))
            _check(recording.samples[-1], asked)
            yield


def _check(sample: Sample, asked: tuple[float, ...]) -> None:
    """Refuse a process that did not time what it was asked for: it would count as one in which nothing was found.

    Raises:
        WorkerError: It has other slowdowns.
    """
    told = [one["asked"] for one in sample.facts.get("slowdowns", ())]
    if told != [share for share in asked if share]:
        raise WorkerError(
            f"the worker was asked to be slower by {_listed(asked)}, and tells of {_listed(told)}.", reason="protocol"
        )


def _listed(shares: tuple[float, ...] | list[float]) -> str:
    return ", ".join(f"{share:.0%}" for share in shares if share) or "nothing"


def _measured(recording: Recording) -> Measured:
    told = [{one["asked"]: one for one in sample.facts.get("slowdowns", ())} for sample in recording.samples]
    shares = sorted({share for process in told for share in process})

    def column(share: float, name: Literal["median_s", "obtained", "waited"]) -> Column:
        return tuple(process[share].get(name) if share in process else None for process in told)

    plain: Column = tuple(sample.median_s for sample in recording.samples)
    waited: Column = tuple(sample.facts.get("waited") for sample in recording.samples)
    return Measured(
        recording.measured(),
        {"0": plain, **{key_of(share): column(share, "median_s") for share in shares}},
        {key_of(share): column(share, "obtained") for share in shares},
        {"0": waited, **{key_of(share): column(share, "waited") for share in shares}},
    )
