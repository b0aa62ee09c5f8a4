"""What a worker process can be asked to do: one task per file, `run(request, context) -> answer`.

Request and answer are dataclasses that the file of the task declares; arrays and models travel as files in
`context.out_dir`.
"""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.values.encoding import from_json, to_json
from pytest_sdperf.tasks.sampling.phases import PhaseListener


@dataclass(frozen=True)
class TaskContext:
    """What a task is given besides its arguments.

    Attributes:
        out_dir: Folder for the files it makes.
        catalog: Everything that the registrars of the job registered.
        listener: Told when a phase begins and ends.
        say: Sends one line of progress to the suite.
        cache_dir: Folder of the cache, as the user knows it, for errors of its disk; of tasks that make an entry of it.
    """

    out_dir: Path
    catalog: Catalog
    listener: PhaseListener
    say: Callable[[str], None]
    cache_dir: Path = Path()


def perform(task: Callable[..., Any], data: Mapping[str, Any], context: TaskContext) -> Any:
    """Perform a task whose request came as JSON data, and return its answer as such.

    Args:
        task: Its first parameter says the type of the request.
        data: The request.
        context: What it is given besides.
    """
    first = next(iter(inspect.signature(task).parameters))
    # That one alone: what the others are may be known to a type checker only.
    holder = types.SimpleNamespace(__annotations__={first: task.__annotations__.get(first, Any)})
    kind = typing.get_type_hints(holder, getattr(task, "__globals__", {}))[first]
    request = from_json(data, kind) if isinstance(kind, type) and dataclasses.is_dataclass(kind) else data
    answer = to_json(task(request, context))
    altered = getattr(getattr(request, "case", None), "altered", "")
    return context.catalog.alteration(altered).answer(answer, context.listener)
