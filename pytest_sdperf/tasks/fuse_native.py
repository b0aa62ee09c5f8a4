"""Optimize an exported graph with the fuser `native`: the rewrites of this project."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_sdperf.core.clock import Stopwatch
from pytest_sdperf.core.errors import BuildError
from pytest_sdperf.core.files.disk import disk_errors
from pytest_sdperf.fusing import graph, record
from pytest_sdperf.tasks import TaskContext
from pytest_sdperf.tasks._made_graph import MadeGraph

FILE = "model.onnx"


def run(arguments: Mapping[str, Any], context: TaskContext) -> MadeGraph:
    """Write the optimized `model.onnx` and `model.onnx.data`, and `sites.json`: what each fusion did where.

    A graph whose weights have no data is fused like any other, and its weights have none afterwards.

    Args:
        arguments: `source` (exported graph), `component`, `optimizations` (names), `dtype` (`float32` or `float16`),
            `float32` (inputs and outputs of the graph that keep this type), `float32_ops` (operators that do);
            `cache_dir`: the cache folder, for messages.
        context: The task's context.

    Raises:
        BuildError: The graph needs an opset without kernels, or the fused model would not be valid.
        CacheError: The disk is full or read-only.
    """
    import onnx_ir as ir

    from pytest_sdperf.fusing.limits import find_limits
    from pytest_sdperf.fusing.native import fuse
    from pytest_sdperf.fusing.weightless import is_weightless

    component, optimizations = arguments["component"], arguments["optimizations"]
    path = context.out_dir / FILE
    watch = Stopwatch()
    context.say(f"optimizing {component} with the fuser native ({'+'.join(optimizations) or arguments['dtype']})")
    model = ir.load(arguments["source"])
    fusions = [
        fusion for optimization in optimizations for fusion in context.catalog.optimizations.get(optimization).fusions()
    ]
    to_float16 = arguments["dtype"] == "float16"
    exact = {name: arguments[name] for name in ("float32", "float32_ops")}
    sites = fuse(model, fusions, to_float16=to_float16, **exact)
    with disk_errors(context.cache_dir):
        ir.save(model, path, external_data=None if is_weightless(model) else f"{FILE}.data")
        record.write(context.out_dir, sites)
    took = watch.took()
    context.say(f"checking the optimized graph of {component}")
    try:
        described = graph.describe(path, strict=True)
    except BuildError as error:
        raise BuildError(
            f"{component} was not optimized ({'+'.join(optimizations) or arguments['dtype']}): what the fuser native "
            f"made of it is no valid model. {str(error).rstrip('.')}. Choose fewer optimizations, such as "
            f"--optimization=fp32, or --optimization=as-is for a graph of your own."
        ) from error
    return MadeGraph(**vars(took), graph=described, limits=tuple(find_limits(model)))
