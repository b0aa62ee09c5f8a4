"""Write an exported graph, or the weights of a component, again with random numbers."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_sdperf.core.clock import Stopwatch, Took
from pytest_sdperf.core.files.disk import disk_errors
from pytest_sdperf.fusing import graph, record
from pytest_sdperf.tasks import TaskContext, export
from pytest_sdperf.tasks._made_graph import MadeGraph


def run(arguments: Mapping[str, Any], context: TaskContext) -> Took:
    """Write a file of the same name, with what belongs to it.

    Args:
        arguments: `source`: `model.onnx` or a safetensors file; `seed`: of the numbers; `cache_dir`: the cache folder,
            for messages.
        context: The task's context.

    Returns:
        Of a graph a `MadeGraph`.

    Raises:
        CacheError: The disk is full or read-only.
    """
    from pytest_sdperf.tracing.redrawn import redraw, redraw_weights

    source, watch = Path(arguments["source"]), Stopwatch()
    path = context.out_dir / source.name
    with disk_errors(context.cache_dir):
        if source.name != export.FILE:
            redraw_weights(source, path, seed=arguments["seed"])
            return watch.took()
        redraw(source, path, seed=arguments["seed"])
        if (source.parent / record.FILE).is_file():
            shutil.copy(source.parent / record.FILE, context.out_dir)
    described = graph.describe(path)
    return MadeGraph(**vars(watch.took()), graph=described)
