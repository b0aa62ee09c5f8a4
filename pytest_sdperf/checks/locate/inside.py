"""What an engine that loads a graph has inside: the graph is written again, with inner values as outputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_sdperf.builds.content_key import content_key
from pytest_sdperf.builds.execution.runner import CaseRunner
from pytest_sdperf.builds.fingerprint import source_hash
from pytest_sdperf.builds.processes import forking
from pytest_sdperf.builds.processes.process import run_task
from pytest_sdperf.core.files.strict_json import convert
from pytest_sdperf.core.labels import in_words
from pytest_sdperf.core.machine.device_choice import worker_environment
from pytest_sdperf.core.values import Build
from pytest_sdperf.core.values.recipe import SessionRecipe
from pytest_sdperf.tasks._execution import Ran, RunCase
from pytest_sdperf.tasks.trace import FindNode, Reveal, Revealed

if TYPE_CHECKING:
    import numpy as np

_CUDA_GRAPH = "cuda_graph"
T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Inside:
    """What the engine of a case computes inside.

    Attributes:
        obtained: File (npz) with the values, and the outputs.
        session: How the engine makes its session; None where it does not say.
        values: How many inner values there are.
    """

    obtained: Path
    session: SessionRecipe | None
    values: int


def inside(
    runner: CaseRunner, inputs: Mapping[str, np.ndarray[Any, Any]] | None, build: Build, asked: Reveal
) -> Inside:
    """Have the engine run a graph that tells its inner values.

    Args:
        runner: The component alone.
        inputs: What it is given; the seeded inputs if None.
        build: Its graph.
        asked: Which values that tells.
    """
    component = runner.case.component
    told = own_task(runner, "reveal", asked, Revealed)
    case = runner.execution(inputs, builds={component: _probe(build, Path(told.path), asked)})
    part = case.parts[component]
    if _CUDA_GRAPH in part.options:  # its outputs have fixed places
        part = dataclasses.replace(part, options={**part.options, _CUDA_GRAPH: "off"})
    ran = runner.task("run", RunCase(dataclasses.replace(case, parts={component: part}), inside=True), Ran)
    return Inside(Path(ran.outputs), ran.session, told.values)


def _probe(build: Build, path: Path, asked: Reveal) -> Build:
    """Return the build of a graph that tells its inner values: compiled, it is another one than that of the case."""
    code = source_hash("pytest_sdperf.tracing.section")
    parts = {"build": build.key, "share": asked.share, "names": asked.names, "code": code}
    return dataclasses.replace(build, key=f"inside-{content_key(parts)}", path=path)


def own_task(runner: CaseRunner, function: str, request: Reveal | FindNode, answer: type[T]) -> T:
    """Run a task of `tasks.trace` in the interpreter of the suite: that of a profile may lack what it needs."""
    context, settings = runner.context, runner.context.settings
    with context.turns.alone_on_gpu(in_words(runner.case)):
        found = run_task(
            f"pytest_sdperf.tasks.trace:{function}",
            request,
            out_dir=context.new_folder(function),
            timeout_s=settings.worker_timeout_s,
            env=worker_environment(context.device),
            in_process=settings.in_process,
            libraries=forking.GRAPHS if isinstance(request, Reveal) else forking.MODULES,
        )
    return convert(found, answer)
