"""Let an engine compile one component, into the task's folder: every later process begins with what it left there."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_sdperf.core.clock import Stopwatch, Took
from pytest_sdperf.core.device import DeviceKind
from pytest_sdperf.tasks import TaskContext
from pytest_sdperf.tasks._execution import Execution
from pytest_sdperf.tasks._loading import engine_of, loaded_component


@dataclass(frozen=True)
class FindVersions:
    """The libraries of one engine.

    Attributes:
        engine: Catalog name.
        device_kind: What it is to run on.
    """

    engine: str
    device_kind: DeviceKind


def versions(request: FindVersions, context: TaskContext) -> dict[str, str]:
    """Return library -> version: they decide whether something compiled is still of use.

    Raises:
        EngineMissingError: This interpreter, which may be that of a profile, lacks what the engine needs.
    """
    return dict(engine_of(request.engine, {}, request.device_kind, context).versions())


def run(case: Execution, context: TaskContext) -> Took:
    """Load the component of a case and run it once on example inputs; leaves the engine's files in `WORK_DIR`.

    Returns:
        What loading and the first run took, the compiling included.
    """
    watch = Stopwatch()
    with loaded_component(case, case.component, context) as loaded:
        loaded.runner.bind(loaded.model.example(case.component, case.workload))
        loaded.runner.run()
        loaded.runner.synchronize()
    return watch.took()
