"""Write an exported graph again with random numbers in place of its weights."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_sdperf import graph
from pytest_sdperf.clock import Stopwatch
from pytest_sdperf.disk import disk_errors
from pytest_sdperf.fusing import record
from pytest_sdperf.tasks import TaskContext, export


def run(arguments: Mapping[str, Any], context: TaskContext) -> dict[str, Any]:
    """Write `model.onnx` with the nodes of another one.

    Args:
        arguments: `source`: path of that graph; `seed`: of the numbers; `cache_dir`: the cache folder, for messages.
        context: The task's context.

    Returns:
        What `graph.describe` says about it; `seconds` and `cpu_seconds`.

    Raises:
        CacheError: The disk is full or read-only.
    """
    from pytest_sdperf.tracing.redrawn import redraw

    source, path, watch = Path(arguments["source"]), context.out_dir / export.FILE, Stopwatch()
    with disk_errors(Path(arguments["cache_dir"])):
        redraw(source, path, seed=arguments["seed"])
        if (source.parent / record.FILE).is_file():
            shutil.copy(source.parent / record.FILE, context.out_dir)
    return {**graph.describe(path), **watch.took()}
