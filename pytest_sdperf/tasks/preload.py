"""Import what a case needs, in a process that then waits for its turn."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from pytest_sdperf.core.components import PIPELINE
from pytest_sdperf.core.schedulers import make_scheduler
from pytest_sdperf.tasks import TaskContext
from pytest_sdperf.tasks._execution import Execution
from pytest_sdperf.tasks._loading import engine_of
from pytest_sdperf.tasks.pipeline import check_packages

_COMPILER = "torch._dynamo"


def run(case: Execution, context: TaskContext) -> dict[str, Any]:
    """Import the packages of the engines and the classes of the model; load nothing, touch no device.

    Args:
        case: What will be executed.
        context: The task's context.

    Raises:
        EngineMissingError: This interpreter, which may be that of a profile, lacks a package.
    """
    model = context.catalog.models.get(case.model)
    engines = {
        name: engine_of(part.engine, part.options, case.device_kind, context) for name, part in case.parts.items()
    }
    for name, engine in engines.items():
        engine.preload(model, name)
    if case.component != PIPELINE:
        return {}
    check_packages(case.device_kind)
    import transformers

    _ = transformers.CLIPTokenizer  # transformers imports a class when it is asked for
    with contextlib.ExitStack() as stack:
        if all(engine.consumes == "onnx" for engine in engines.values()):
            stack.enter_context(without_compiler())
        make_scheduler(case.workload.scheduler, model.config("scheduler"))
    return {}


@contextlib.contextmanager
def without_compiler() -> Iterator[None]:
    """Hide torch's compiler from what is imported inside, unless it is imported already.

    diffusers marks its classes for the compiler, and does without where torch has none. The compiler is most of the
    time that importing a scheduler takes, and where components are graphs no class of diffusers is ever compiled.
    """
    if _COMPILER in sys.modules:
        yield
        return
    sys.modules[_COMPILER] = None  # type: ignore[assignment]  # Python's way to say that there is no such module
    try:
        yield
    finally:
        del sys.modules[_COMPILER]
