"""Alter a file of a build: what the cache holds is read, and stays as it was."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from pytest_sdperf.core.alteration import BuildStage
from pytest_sdperf.core.clock import Stopwatch, Took
from pytest_sdperf.core.files.disk import disk_errors
from pytest_sdperf.fusing import graph, record
from pytest_sdperf.fusing.graph import GraphFacts
from pytest_sdperf.tasks import TaskContext, export


@dataclass(frozen=True)
class AlterFile:
    """A file, and what alters it.

    Attributes:
        alteration: Its name.
        stage: What the build has come to.
        source: `model.onnx`, or a safetensors file.
    """

    alteration: str
    stage: BuildStage
    source: Path


@dataclass(frozen=True)
class Altered(Took):
    """What became of it.

    Attributes:
        altered: Whether there was anything to alter; else nothing was written.
        graph: What was found in the altered graph; None for weights.
    """

    altered: bool
    graph: GraphFacts | None = None


def run(request: AlterFile, context: TaskContext) -> Altered:
    """Write the altered file, and what belongs to it.

    Raises:
        CacheError: The disk is full or read-only.
    """
    watch, folder, kept = Stopwatch(), context.out_dir, request.source.parent / record.FILE
    with disk_errors(context.cache_dir):
        altered = context.catalog.alteration(request.alteration).build(request.stage, request.source, folder)
        if altered and kept.is_file():
            shutil.copy(kept, folder)
    described = graph.describe(folder / export.FILE) if altered and request.source.name == export.FILE else None
    return Altered(**vars(watch.took()), altered=altered, graph=described)
