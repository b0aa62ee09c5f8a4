"""From the JSON of a job to loaded runners: shared by the tasks that execute components."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_sdperf.clock import monotonic_s
from pytest_sdperf.contracts import Engine, LoadRequest, Model, Runner
from pytest_sdperf.errors import EngineMissingError
from pytest_sdperf.tasks import TaskContext
from pytest_sdperf.values import Build, Workload


@dataclass(frozen=True)
class LoadedComponent:
    """One component that is ready to run.

    Attributes:
        engine: What runs it.
        model: What it belongs to.
        runner: The loaded component.
        load_s: Seconds that loading took.
    """

    engine: Engine
    model: Model
    runner: Runner
    load_s: float


def build_from_json(data: Mapping[str, Any]) -> Build:
    """Rebuild a `Build` that went through JSON."""
    lists = {name: tuple(data.get(name, ())) for name in ("notes", "limits")}
    return Build(**{**data, **lists, "path": Path(data["path"])})


def usable_engine(part: Mapping[str, Any], arguments: Mapping[str, Any], context: TaskContext) -> Engine:
    """Return the engine that a job names for one component.

    Args:
        part: The component's entry in `components` of the job.
        arguments: The job's, with `device_kind`.
        context: The task's context.

    Raises:
        EngineMissingError: This interpreter, which may be that of a profile, lacks what the engine needs.
    """
    engine = context.catalog.engines.get(part["engine"])
    kind = arguments["device_kind"]
    reason = engine.missing(kind) or engine.refuses_options(engine.all_options(part["options"]), kind)
    if reason is not None:
        raise EngineMissingError(f"engine {engine.name!r} cannot run under {sys.executable}: {reason}")
    return engine


@contextlib.contextmanager
def loaded_component(arguments: Mapping[str, Any], component: str, context: TaskContext) -> Iterator[LoadedComponent]:
    """Load one component with the engine that the job names for it.

    Args:
        arguments: `model`, `workload`, `device_kind`, `device_index`, `work_dir` and `components`: component ->
            `engine`, `options`, `build`.
        component: Which of them.
        context: The task's context.

    Raises:
        EngineMissingError: This interpreter, which may be that of a profile, lacks what the engine needs.
    """
    part = arguments["components"][component]
    engine = usable_engine(part, arguments, context)
    model = context.catalog.models.get(arguments["model"])
    request = LoadRequest(
        build=build_from_json(part["build"]),
        model=model,
        component=component,
        workload=Workload(**arguments["workload"]),
        device_kind=arguments["device_kind"],
        device_index=arguments["device_index"],
        options=engine.all_options(part["options"]),
        work_dir=Path(arguments["work_dir"]),
    )
    start_s = monotonic_s()
    with engine.load(request) as runner:
        yield LoadedComponent(engine, model, runner, monotonic_s() - start_s)
