"""Measure a case in fresh processes, with the state and the memory of its device beside it."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pytest_sdperf.baselines.facts import check_facts
from pytest_sdperf.builds.execution.runner import CaseRunner, Run
from pytest_sdperf.builds.processes.events import Event
from pytest_sdperf.checks.pipelines.judging.metrics import with_metrics
from pytest_sdperf.checks.pipelines.judging.waiting import disturbed_share
from pytest_sdperf.checks.pipelines.watches import EnergyWatch, MemoryWatch, PhaseWatch, StateWatch, state_of
from pytest_sdperf.core import progress
from pytest_sdperf.core.device import Health
from pytest_sdperf.core.errors import OutOfMemoryError, SdperfError, WorkerError
from pytest_sdperf.core.files.strict_json import convert
from pytest_sdperf.core.machine import health
from pytest_sdperf.core.units import plural
from pytest_sdperf.core.values import Build, Failure, Measurement, Sample, finite
from pytest_sdperf.core.values.artifact import Artifact
from pytest_sdperf.tasks._execution import Execution, MeasureCase, Measured
from pytest_sdperf.tasks.sampling.timing import TimingPlan

# Processes that have imported everything and wait for their turn; each holds the code of its libraries in memory.
MOST_WAITING = 4
# Processes of one case that others may take the place of, because something else used the processors meanwhile. On a
# machine that is never quiet more of them would only take more time.
MOST_REPLACED = 2
# A request of many UNet calls averages over them; a component needs more calls for a stable median.
COMPONENT_PLAN = TimingPlan()
PIPELINE_PLAN = TimingPlan(min_iterations=2, max_iterations=10, timed_s=1.0, warmup_s=0.001)
# Behind the timed calls of a device that counts its energy. The counter of an H200 (driver 580.159.04) moves every 100
# ms: under a steady load of 690 W phases of 1 s told 676 to 706 W, and phases of 2 s 689 to 692 W.
ENERGY_S = 2.0
# On a CPU nothing is left to warm up after two whole requests.
CPU_PIPELINE_PLAN = dataclasses.replace(PIPELINE_PLAN, warmup_s=0.0)


def ready(*sides: Recording) -> None:
    """Build and compile what all of them load, and only then read the state of their device.

    A compiler keeps the device busy for minutes: what it slows down meanwhile slows no measurement down.
    """
    for side in sides:
        with side.until_failure():
            _ = side.request
    for side in sides:
        side.before = side.state()


class Recording:
    """What the processes of one case told, one after the other, and how one of them failed.

    Args:
        runner: The case.
        builds: What they load instead of the case's own builds.
    """

    def __init__(self, runner: CaseRunner, builds: Mapping[str, Build] | None = None) -> None:
        self.runner = runner
        self._builds = builds
        self._probe, self._device = runner.context.probe, runner.context.device
        self._during = StateWatch(self._probe, self._device)
        self.before: Health | None = None
        self.failure: Failure | None = None
        self.samples: list[Sample] = []
        self.replaced: list[Sample] = []
        self._artifacts: dict[str, Artifact] = {}

    def state(self) -> Health:
        """Return the state of the device now."""
        return state_of(self._probe, self._device)

    @contextlib.contextmanager
    def until_failure(self) -> Iterator[None]:
        """Turn what goes wrong inside into a failure; what was measured before stays."""
        try:
            yield
        except OutOfMemoryError as error:
            self.failure = Failure("oom", str(error))
        except WorkerError as error:
            self.failure = Failure(error.reason, str(error), error.tail)
        except SdperfError as error:
            self.failure = Failure("refused", str(error))

    @functools.cached_property
    def request(self) -> MeasureCase:
        """What the workers are asked for.

        Raises:
            SdperfError: A component cannot be built.
        """
        self._builds = self.runner.builds() if self._builds is None else self._builds
        case = self.runner.execution(builds=self._builds)
        self._artifacts = _artifacts(self._builds, case)
        told = self._probe.energy_j(self._device) is not None
        plan = dataclasses.replace(plan_of(self.runner), energy_s=ENERGY_S if told else 0.0)
        return MeasureCase(case, plan)

    def take(self, worker: Run) -> None:
        """Let one process measure.

        Raises:
            SdperfError: It gave no sample, or timed fewer calls than it was asked for.
        """
        memory, energy = MemoryWatch(self._probe, self._device), EnergyWatch(self._probe, self._device)
        sample = convert(_ask(worker, memory, energy, self._during), Measured).sample
        asked, timed = plan_of(self.runner).min_iterations, len(sample.iterations_s)
        if timed < asked:
            raise WorkerError(
                f"the worker timed {plural(timed, 'call')} where at least {asked} were asked for.", reason="protocol"
            )
        sample = dataclasses.replace(sample, facts=finite(sample.facts))
        try:
            check_facts([sample], "$")
        except ValueError as error:
            raise WorkerError(f"the engine tells a fact of another type: {error}.", reason="protocol") from error
        images = self.runner.case.batch_size if self.runner.is_pipeline else 0
        sample = energy.add_to(memory.add_to(sample), images=images)
        self.samples.append(with_metrics(sample, self.runner.context.catalog))

    def missing(self, total: int) -> int:
        """Return how many processes are to be started: for those that are not there, and for those that waited."""
        taken = [*self.samples, *self.replaced]
        quiet = sum(not disturbed_share(sample) for sample in taken)
        return max(total - len(taken), min(total - quiet, total + MOST_REPLACED - len(taken)), 0)

    def keep_quietest(self, total: int) -> None:
        """Keep so many samples, those first that nothing else disturbed; what is left over has been replaced."""
        quietest = sorted([*self.samples, *self.replaced], key=disturbed_share)
        self.samples, self.replaced = quietest[:total], quietest[total:]

    def measured(self) -> Measurement:
        """Return all of it, with the state of the machine before and now."""
        during, after = self._during.seen, self.state()
        before = self.before or after
        return Measurement(
            case=self.runner.case,
            samples=tuple(self.samples),
            replaced=tuple(self.replaced),
            failure=self.failure,
            subject=subject(self.samples[-1]) if self.samples else {},
            artifacts=self._artifacts,
            health=health.unfit(before, after, self._device, during=during),
            remarks=health.remarks(before, after, self._device, during=during),
            readings=health.readings(before=before, during=during, after=after),
            metrics={name: one.info for name, one in self.runner.context.catalog.metrics.items().items()},
            **_graphs(self._builds or {}),
        )


def _ask(worker: Run, *beside: PhaseWatch | StateWatch) -> dict[str, Any]:
    """Let one process work and return its answer; nothing is read any more when it is there."""

    def on_event(event: Event) -> None:
        for watch in beside:
            watch.on_event(event)

    try:
        return worker(on_event=on_event)
    finally:
        for watch in beside:
            watch.close()


def measure(
    runner: CaseRunner,
    *,
    processes: int,
    say: Callable[[str], None],
    more: Callable[[Measurement], int] = lambda measurement: 0,
) -> Measurement:
    """Take one sample in each of `processes` fresh processes, one after the other.

    A process whose threads waited for processors that something else used is replaced by another one, as far as
    `MOST_REPLACED` allows: not for its time, but for what the kernel counted. What cannot be built or loaded, runs out
    of memory, crashes or hangs ends the measurement with a `Failure`.

    Args:
        runner: The case.
        processes: How many to begin with.
        say: Prints one line of progress.
        more: Says how many more to start, of what was measured until now; 0 ends the measurement.
    """
    recording = Recording(runner)
    ready(recording)
    what = f"{runner.case.model} {runner.case.component}"
    while True:
        if recording.failure is None:
            with recording.until_failure():
                _take(recording, runner, total=len(recording.samples) + processes)
        measured = recording.measured()
        processes = more(measured) if recording.failure is None else 0
        if not processes:
            return measured
        say(f"{what} is not certain yet: {plural(processes, 'process', 'processes')} more")


def _take(recording: Recording, runner: CaseRunner, *, total: int) -> None:
    """Take samples until there are `total`, and some more in place of those that something else disturbed."""
    what = f"{runner.case.model} {runner.case.component}"
    while missing := recording.missing(total):
        count, there = min(MOST_WAITING, missing), len(recording.samples)
        instead = there >= total
        where = " in place of what waited for processors that something else used" if instead else ""
        first, last = (1, count) if instead else (there + 1, total)
        request = recording.request
        with contextlib.ExitStack() as stack:
            with progress.step(f"starting {plural(count, 'process', 'processes')} for {what}{where}"):
                workers = stack.enter_context(runner.workers("measure", request, count=count))
            for number, worker in enumerate(workers, first):
                with progress.step(f"measuring {what}, process {number} of {last}", like=runner.case.key):
                    recording.take(worker)
        recording.keep_quietest(total)


def plan_of(runner: CaseRunner) -> TimingPlan:
    """Return how many calls each process of a case takes."""
    return timing_plan(whole=runner.is_pipeline, device_kind=runner.context.device.kind)


def timing_plan(*, whole: bool, device_kind: str) -> TimingPlan:
    """Return how many calls each process takes of a whole request or of a component, on a kind of device."""
    if not whole:
        return COMPONENT_PLAN
    return CPU_PIPELINE_PLAN if device_kind == "cpu" else PIPELINE_PLAN


def _graphs(builds: Mapping[str, Build]) -> dict[str, Any]:
    graphs = {name: build for name, build in builds.items() if build.kind == "onnx"}
    return {
        "graph_hashes": {name: build.graph_hash for name, build in graphs.items()},
        "counts": {name: dict(build.counts) for name, build in graphs.items()},
    }


def _artifacts(builds: Mapping[str, Build], case: Execution) -> dict[str, Artifact]:
    """Return what a process loads: component -> sizes, and what building it took."""
    found = {}
    for component, build in builds.items():
        compiled = case.parts[component].compiled
        size, steps = (compiled.size_bytes, [compiled.step]) if compiled else (None, [])
        found[component] = Artifact(build.size_bytes, size, (*build.steps, *steps))
    return found


def subject(sample: Sample) -> dict[str, str]:
    """Return versions and settings of what was tested, as the worker saw them."""
    told = {**sample.facts.get("versions", {}), **sample.facts.get("settings", {})}
    if "threads" in sample.facts:
        told["threads"] = sample.facts["threads"]
    return dict(sorted(told.items()))
