"""Calls of one loaded case, one after the other."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from pytest_sdperf.builds.execution.runner import CaseRunner
from pytest_sdperf.core.files.arrays import Arrays, save_arrays
from pytest_sdperf.core.values import Workload
from pytest_sdperf.tasks._execution import CallRequest


@dataclasses.dataclass(frozen=True)
class ReplayCall:
    """One call.

    Attributes:
        name: What the report calls it.
        workload: Its size.
        prompts: Of each image; a component has seeded inputs instead.
        seed: Of the inputs of a component, or of the initial latents of a request.
        drawn: Images that are drawn from the seed.
        rows: Which rows of what was drawn are given, in this order: of a component along the first axis (a guided UNet
            has two for each image), of a request images. Empty for all of them.
    """

    name: str
    workload: Workload
    prompts: tuple[str, ...]
    seed: int = 0
    drawn: int = 0
    rows: tuple[int, ...] = ()


def call_requests(runner: CaseRunner, calls: Sequence[ReplayCall]) -> tuple[CallRequest, ...]:
    """Return what a worker is told of calls on one loaded case."""
    sizes = {(call.workload.batch_size, call.workload.height, call.workload.width) for call in calls}
    case = runner.case
    resized = sizes != {(case.batch_size, case.height, case.width)}
    return tuple(_told(runner, call, resized=resized) for call in calls)


def _told(runner: CaseRunner, call: ReplayCall, *, resized: bool) -> CallRequest:
    told = CallRequest(call.name, call.workload, resized)
    if runner.is_pipeline:
        drawn = call.drawn or call.workload.batch_size
        rows = call.rows or tuple(range(drawn))
        return dataclasses.replace(told, prompts=call.prompts, seed=call.seed, drawn=drawn, rows=rows)
    file = runner.context.new_folder("inputs") / "inputs.npz"
    return dataclasses.replace(told, inputs=save_arrays(file, _inputs(runner, call)))


def _inputs(runner: CaseRunner, call: ReplayCall) -> Arrays:
    """Draw the inputs of a component, and pick rows of those that have one for each row of the batch."""
    model, component = runner.model, runner.case.component
    whole = dataclasses.replace(call.workload, batch_size=call.drawn or call.workload.batch_size)
    drawn = model.example(component, whole, seed=call.seed)
    if not call.rows:
        return drawn
    batched = {spec.name for spec in model.inputs(component, whole) if spec.axes.get(0) == "batch"}
    return {name: array[list(call.rows)] if name in batched else array for name, array in drawn.items()}


def by_call(arrays: Arrays, count: int) -> Sequence[Arrays]:
    """Return the outputs of each of `count` calls, of what a task put out: `NUMBER.OUTPUT`, calls numbered from 0."""
    found: list[dict[str, Any]] = [{} for _ in range(count)]
    for name, array in arrays.items():
        number, _, output = name.partition(".")
        found[int(number)][output] = array
    return found
