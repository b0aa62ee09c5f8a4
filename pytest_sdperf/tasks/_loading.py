"""From a case to loaded runners: shared by the tasks that execute components."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_sdperf.core.clock import monotonic_s
from pytest_sdperf.core.contracts import Engine, LoadRequest, Model, Runner
from pytest_sdperf.core.device import DeviceKind
from pytest_sdperf.core.errors import EngineMissingError
from pytest_sdperf.core.values.facts import Facts, known_facts
from pytest_sdperf.tasks import TaskContext
from pytest_sdperf.tasks._execution import Compiled, Execution

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

    def facts(self) -> Facts:
        """Return what the runner tells of what ran.

        Raises:
            UnknownNameError: It tells something under a name that is not a fact's.
        """
        return known_facts(self.runner.facts(), self.engine.name)


def engine_of(name: str, options: Mapping[str, str], device_kind: DeviceKind, context: TaskContext) -> Engine:
    """Return an engine that can be used here.

    Args:
        name: Its catalog name.
        options: Options that differ from its defaults.
        device_kind: What it is to run on.
        context: The task's context.

    Raises:
        EngineMissingError: This interpreter, which may be that of a profile, lacks what the engine needs.
    """
    engine = context.catalog.engines.get(name)
    reason = engine.missing(device_kind) or engine.refuses_options(engine.all_options(options), device_kind)
    if reason is not None:
        raise EngineMissingError(f"engine {engine.name!r} cannot run under {sys.executable}: {reason}")
    return engine


@contextlib.contextmanager
def loaded_component(case: Execution, component: str, context: TaskContext) -> Iterator[LoadedComponent]:
    """Load one component of a case.

    Args:
        case: The case.
        component: Which of its parts.
        context: The task's context.

    Raises:
        EngineMissingError: This interpreter, which may be that of a profile, lacks what the engine needs.
    """
    engine, request = _request(case, component, context)
    start_s = monotonic_s()
    with engine.load(request) as runner:
        load_s = monotonic_s() - start_s
        altered = context.catalog.alteration(case.altered).loaded(component, runner)
        yield LoadedComponent(engine, request.model, altered, load_s)


@contextlib.contextmanager
def loaded_pipeline(case: Execution, context: TaskContext) -> Iterator[dict[str, LoadedComponent]]:
    """Load every component of a case, those of one engine together.

    Args:
        case: The case.
        context: The task's context.

    Raises:
        EngineMissingError: This interpreter, which may be that of a profile, lacks what an engine needs.
    """
    together: dict[str, tuple[Engine, dict[str, LoadRequest]]] = {}
    for name in case.parts:
        engine, request = _request(case, name, context)
        together.setdefault(engine.name, (engine, {}))[1][name] = request
    start_s = monotonic_s()
    with contextlib.ExitStack() as stack:
        runners = {
            name: (engine, context.catalog.alteration(case.altered).loaded(name, runner))
            for engine, requests in together.values()
            for name, runner in stack.enter_context(engine.load_pipeline(requests)).items()
        }
        load_s = monotonic_s() - start_s
        model = context.catalog.models.get(case.model)
        yield {name: LoadedComponent(engine, model, runner, load_s) for name, (engine, runner) in runners.items()}


def _request(case: Execution, component: str, context: TaskContext) -> tuple[Engine, LoadRequest]:
    part = case.parts[component]
    engine = engine_of(part.engine, part.options, case.device_kind, context)
    return engine, LoadRequest(
        build=part.build,
        model=context.catalog.models.get(case.model),
        component=component,
        workload=case.workload,
        device_kind=case.device_kind,
        device_index=case.device_index,
        options=engine.all_options(part.options),
        work_dir=_work_dir(part.compiled, context.out_dir / WORK_DIR),
        shapes=part.shapes,
    )


def _work_dir(compiled: Compiled | None, folder: Path) -> Path:
    """Fill the folder of this process with links to what was compiled: files that an engine adds stay its own."""
    if compiled is not None:
        shutil.copytree(compiled.folder, folder, dirs_exist_ok=True, copy_function=_link)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _link(source: str, target: str) -> None:
    if Path(target).exists():
        return  # another component of the pipeline brought it; writing here would change what the cache holds
    try:
        Path(target).symlink_to(source)
    except OSError:  # not every file system and not every user of Windows has links
        shutil.copy2(source, target)
