"""Lower a fused graph to primitives, so that a CPU can run it: its results are checked there, not its speed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pytest_sdperf.core.clock import Stopwatch
from pytest_sdperf.core.files.disk import disk_errors
from pytest_sdperf.fusing import graph
from pytest_sdperf.tasks import TaskContext
from pytest_sdperf.tasks._made_graph import MadeGraph

FILE = "model.onnx"


@dataclass(frozen=True)
class LowerGraph:
    """A fused graph.

    Attributes:
        source: Its file.
        component: What it computes.
    """

    source: Path
    component: str


def run(request: LowerGraph, context: TaskContext) -> MadeGraph:
    """Write the lowered `model.onnx` and `model.onnx.data` into the task's folder and check them.

    Raises:
        BuildError: A node has a form that no kernel takes, or the model is not valid.
        CacheError: The disk is full or read-only.
    """
    import onnx_ir as ir

    from pytest_sdperf.fusing.lowering import lower

    path = context.out_dir / FILE
    watch = Stopwatch()
    context.say(f"lowering {request.component} to primitives")
    model = ir.load(request.source)
    lower(model)
    with disk_errors(context.cache_dir):
        ir.save(model, path, external_data=f"{FILE}.data")
    return MadeGraph(**vars(watch.took()), graph=graph.describe(path))
