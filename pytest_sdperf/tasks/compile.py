"""Let an engine compile one component, into the task's folder: every later process begins with what it left there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_sdperf.core.clock import Stopwatch
from pytest_sdperf.core.values import Workload
from pytest_sdperf.tasks import TaskContext
from pytest_sdperf.tasks._loading import loaded_component, usable_engine


def versions(arguments: Mapping[str, Any], context: TaskContext) -> dict[str, Any]:
    """Return the versions of the engine's libraries, which decide whether something compiled is still of use.

    Args:
        arguments: `engine`; `options`; `device_kind`.
        context: The task's context.

    Returns:
        `versions`: by library.

    Raises:
        EngineMissingError: This interpreter, which may be that of a profile, lacks what the engine needs.
    """
    return {"versions": usable_engine(arguments, arguments, context).versions()}


def run(arguments: Mapping[str, Any], context: TaskContext) -> dict[str, Any]:
    """Load the component and run it once on example inputs; leaves the engine's files in `WORK_DIR`.

    Args:
        arguments: As for `loading.loaded_component`, with `component`.
        context: The task's context.

    Returns:
        `seconds` and `cpu_seconds` that loading and the first run took, the compiling included.
    """
    component = arguments["component"]
    watch = Stopwatch()
    with loaded_component(arguments, component, context) as loaded:
        loaded.runner.bind(loaded.model.example(component, Workload(**arguments["workload"])))
        loaded.runner.run()
        loaded.runner.synchronize()
    return vars(watch.took())
