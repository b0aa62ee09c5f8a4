"""Measure a case in fresh processes, with the state and the memory of its device beside it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pytest_sdperf import health
from pytest_sdperf.errors import OutOfMemoryError, SdperfError, WorkerError
from pytest_sdperf.process import Event
from pytest_sdperf.runner import CaseRunner, Run
from pytest_sdperf.timing import TimingPlan
from pytest_sdperf.units import plural
from pytest_sdperf.values import Build, Failure, Measurement, Sample, finite, to_json
from pytest_sdperf.watches import MemoryWatch, StateWatch

# Processes that have imported everything and wait for their turn; each holds the code of its libraries in memory.
MOST_WAITING = 4
# A request of many UNet calls averages over them; a component needs more calls for a stable median.
COMPONENT_PLAN = TimingPlan()
PIPELINE_PLAN = TimingPlan(min_iterations=2, max_iterations=10, timed_s=1.0, warmup_s=0.001)
# On a CPU nothing is left to warm up after two whole requests.
CPU_PIPELINE_PLAN = dataclasses.replace(PIPELINE_PLAN, warmup_s=0.0)


def measure(runner: CaseRunner, *, processes: int, say: Callable[[str], None]) -> Measurement:
    """Take one sample in each of `processes` fresh processes, one after the other.

    What cannot be built or loaded, runs out of memory, crashes or hangs ends the measurement with a `Failure`.
    """
    workbench = runner.workbench
    plan = plan_of(whole=runner.is_pipeline, device_kind=workbench.device.kind)
    builds: dict[str, Build] = {}
    device, probe = workbench.device, workbench.probe
    state, before = StateWatch(probe, device), probe.health(device)
    samples: list[Sample] = []
    failure: Failure | None = None
    try:
        builds = runner.builds()
        arguments = {**runner.arguments(), "plan": to_json(plan)}
        for sample in _samples(runner, arguments, state, processes=processes, say=say):
            samples.append(sample)  # noqa: PERF402 - what was measured before a failure is kept
    except OutOfMemoryError as error:
        failure = Failure("oom", str(error))
    except WorkerError as error:
        failure = Failure(error.reason, str(error), error.tail)
    except SdperfError as error:
        failure = Failure("refused", str(error))
    state.close()
    after = probe.health(device)
    return Measurement(
        case=runner.case,
        samples=tuple(samples),
        failure=failure,
        subject=subject(samples[-1]) if samples else {},
        health=health.unfit(before, after, device, during=state.seen),
        remarks=health.remarks(before, after, device, during=state.seen),
        readings=health.readings(before=before, during=state.seen, after=after),
        **_graphs(builds),
    )


def plan_of(*, whole: bool, device_kind: str) -> TimingPlan:
    """Return how many calls each process of a case takes.

    Args:
        whole: Whether the case is a whole request.
        device_kind: Where it runs.
    """
    if not whole:
        return COMPONENT_PLAN
    return CPU_PIPELINE_PLAN if device_kind == "cpu" else PIPELINE_PLAN


def _samples(
    runner: CaseRunner, arguments: dict[str, Any], state: StateWatch, *, processes: int, say: Callable[[str], None]
) -> Iterator[Sample]:
    what = f"{runner.case.model} {runner.case.component}"
    for first in range(0, processes, MOST_WAITING):
        count = min(MOST_WAITING, processes - first)
        say(f"starting {plural(count, 'process', 'processes')} for {what}")
        with runner.workers("measure", arguments, count=count) as workers:
            for number, worker in enumerate(workers, first + 1):
                say(f"measuring {what}: process {number} of {processes}")
                yield _sample(runner, worker, state)


def _sample(runner: CaseRunner, worker: Run, state: StateWatch) -> Sample:
    watch = MemoryWatch(runner.workbench.probe, runner.workbench.device)

    def on_event(event: Event) -> None:
        watch.on_event(event)
        state.on_event(event)

    try:
        answer = worker(on_event=on_event)
    finally:
        watch.close()
    sample = Sample.from_json(answer["sample"])
    return watch.add_to(dataclasses.replace(sample, facts=finite(sample.facts)))


def _graphs(builds: Mapping[str, Build]) -> dict[str, Any]:
    graphs = {name: build for name, build in builds.items() if build.kind == "onnx"}
    return {
        "graph_hashes": {name: build.graph_hash for name, build in graphs.items()},
        "counts": {name: dict(build.counts) for name, build in graphs.items()},
    }


def subject(sample: Sample) -> dict[str, str]:
    """Return versions and settings of what was tested, as the worker saw them."""
    facts = {name: str(version) for name, version in sample.facts.get("versions", {}).items()}
    if "threads" in sample.facts:
        facts["threads"] = str(sample.facts["threads"])
    return dict(sorted(facts.items()))
