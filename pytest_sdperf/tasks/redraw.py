"""Write an exported graph, or the weights of a component, again with random numbers."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from pytest_sdperf.core.clock import Stopwatch, Took
from pytest_sdperf.core.files.disk import disk_errors
from pytest_sdperf.fusing import graph, record
from pytest_sdperf.tasks import TaskContext, export
from pytest_sdperf.tasks._made_graph import MadeGraph


@dataclass(frozen=True)
class RedrawWeights:
    """A graph, or the weights of a component.

    Attributes:
        source: `model.onnx`, or a safetensors file.
        seed: Of the numbers.
    """

    source: Path
    seed: int


def run(request: RedrawWeights, context: TaskContext) -> Took:
    """Write a file of the same name, with what belongs to it.

    Returns:
        Of a graph a `MadeGraph`.

    Raises:
        CacheError: The disk is full or read-only.
    """
    from pytest_sdperf.tracing.redrawn import redraw, redraw_weights

    source, watch = request.source, Stopwatch()
    path = context.out_dir / source.name
    with disk_errors(context.cache_dir):
        if source.name != export.FILE:
            redraw_weights(source, path, seed=request.seed)
            return watch.took()
        redraw(source, path, seed=request.seed)
        if (source.parent / record.FILE).is_file():
            shutil.copy(source.parent / record.FILE, context.out_dir)
    described = graph.describe(path)
    return MadeGraph(**vars(watch.took()), graph=described)
