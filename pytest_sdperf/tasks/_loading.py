"""From the JSON of a job to loaded runners: shared by the tasks that execute components."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_sdperf.core.clock import monotonic_s
from pytest_sdperf.core.contracts import Engine, LoadRequest, Model, Runner
from pytest_sdperf.core.errors import EngineMissingError
from pytest_sdperf.core.values import Build, Workload
from pytest_sdperf.faults import planting
from pytest_sdperf.tasks import TaskContext

WORK_DIR = "engine"  # of a task's folder: the engine's own files


@dataclass(frozen=True)
class LoadedComponent:
    """One component that is ready to run.

    Attributes:
        engine: What runs it.
        model: What it belongs to.
        runner: The loaded component.
        load_s: Seconds that loading took; those of its whole pipeline, if it is part of one.
    """

    engine: Engine
    model: Model
    runner: Runner
    load_s: float


def build_from_json(data: Mapping[str, Any]) -> Build:
    """Rebuild a `Build` that went through JSON; how it was made is of no use here."""
    lists = {name: tuple(data.get(name, ())) for name in ("notes", "limits")}
    return Build(**{**data, **lists, "steps": (), "path": Path(data["path"])})


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
        arguments: `model`, `workload`, `device_kind`, `device_index` and `components`: component -> `engine`,
            `options`, `build`, `shapes`, and `compiled`, a folder or empty; `planted`: a fault that goes into what is
            loaded, if there is one.
        component: Which of them.
        context: The task's context.

    Raises:
        EngineMissingError: This interpreter, which may be that of a profile, lacks what the engine needs.
    """
    engine, request = _request(arguments, component, context)
    start_s = monotonic_s()
    with engine.load(request) as runner:
        load_s = monotonic_s() - start_s
        yield LoadedComponent(engine, request.model, planting.loaded(arguments, component, runner), load_s)


@contextlib.contextmanager
def loaded_pipeline(arguments: Mapping[str, Any], context: TaskContext) -> Iterator[dict[str, LoadedComponent]]:
    """Load every component that the job names, those of one engine together.

    Args:
        arguments: As for `loaded_component`.
        context: The task's context.

    Raises:
        EngineMissingError: This interpreter, which may be that of a profile, lacks what an engine needs.
    """
    together: dict[str, tuple[Engine, dict[str, LoadRequest]]] = {}
    for name in arguments["components"]:
        engine, request = _request(arguments, name, context)
        together.setdefault(engine.name, (engine, {}))[1][name] = request
    start_s = monotonic_s()
    with contextlib.ExitStack() as stack:
        runners = {
            name: (engine, planting.loaded(arguments, name, runner))
            for engine, requests in together.values()
            for name, runner in stack.enter_context(engine.load_pipeline(requests)).items()
        }
        load_s = monotonic_s() - start_s
        model = context.catalog.models.get(arguments["model"])
        yield {name: LoadedComponent(engine, model, runner, load_s) for name, (engine, runner) in runners.items()}


def _request(arguments: Mapping[str, Any], component: str, context: TaskContext) -> tuple[Engine, LoadRequest]:
    part = arguments["components"][component]
    engine = usable_engine(part, arguments, context)
    return engine, LoadRequest(
        build=build_from_json(part["build"]),
        model=context.catalog.models.get(arguments["model"]),
        component=component,
        workload=Workload(**arguments["workload"]),
        device_kind=arguments["device_kind"],
        device_index=arguments["device_index"],
        options=engine.all_options(part["options"]),
        work_dir=_work_dir(part["compiled"], context.out_dir / WORK_DIR),
        shapes=part["shapes"],
    )


def _work_dir(compiled: str, folder: Path) -> Path:
    """Fill the folder of this process with links to what was compiled: files that an engine adds stay its own."""
    if compiled:
        shutil.copytree(compiled, folder, dirs_exist_ok=True, copy_function=_link)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _link(source: str, target: str) -> None:
    if Path(target).exists():
        return  # another component of the pipeline brought it; writing here would change what the cache holds
    try:
        Path(target).symlink_to(source)
    except OSError:  # not every file system and not every user of Windows has links
        shutil.copy2(source, target)
