"""Write an exported graph, or the weights of a component, again with random numbers."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_sdperf.core.clock import Stopwatch
from pytest_sdperf.core.files.disk import disk_errors
from pytest_sdperf.fusing import graph, record
from pytest_sdperf.tasks import TaskContext, export


def run(arguments: Mapping[str, Any], context: TaskContext) -> dict[str, Any]:
    """Write a file of the same name, with what belongs to it.

    Args:
        arguments: `source`: `model.onnx` or a safetensors file; `seed`: of the numbers; `cache_dir`: the cache folder,
            for messages.
        context: The task's context.

    Returns:
        `seconds` and `cpu_seconds`; of a graph what `graph.describe` says about it.

    Raises:
        CacheError: The disk is full or read-only.
    """
    from pytest_sdperf.tracing.redrawn import redraw, redraw_weights

    source, watch = Path(arguments["source"]), Stopwatch()
    path = context.out_dir / source.name
    with disk_errors(context.cache_dir):
        if source.name != export.FILE:
            redraw_weights(source, path, seed=arguments["seed"])
            return vars(watch.took())
        redraw(source, path, seed=arguments["seed"])
        if (source.parent / record.FILE).is_file():
            shutil.copy(source.parent / record.FILE, context.out_dir)
    return {**graph.describe(path), **vars(watch.took())}
