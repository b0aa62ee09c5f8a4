"""Optimize an exported graph with the fuser `native`: the rewrites of this project."""

from __future__ import annotations

from pytest_sdperf.core.clock import Stopwatch
from pytest_sdperf.core.errors import BuildError
from pytest_sdperf.core.files.disk import disk_errors
from pytest_sdperf.fusing import graph, record
from pytest_sdperf.tasks import TaskContext
from pytest_sdperf.tasks._fuse_graph import FuseGraph
from pytest_sdperf.tasks._made_graph import MadeGraph

FILE = "model.onnx"


def run(request: FuseGraph, context: TaskContext) -> MadeGraph:
    """Write the optimized `model.onnx` and `model.onnx.data`, and `sites.json`: what each fusion did where.

    A graph whose weights have no data is fused like any other, and its weights have none afterwards.

    Raises:
        BuildError: The graph needs an opset without kernels, or the fused model would not be valid.
        CacheError: The disk is full or read-only.
    """
    import onnx_ir as ir

    from pytest_sdperf.fusing.limits import find_limits
    from pytest_sdperf.fusing.native import fuse
    from pytest_sdperf.fusing.weightless import is_weightless

    component, what = request.component, "+".join(request.optimizations) or request.dtype
    path = context.out_dir / FILE
    watch = Stopwatch()
    context.say(f"optimizing {component} with the fuser native ({what})")
    model = ir.load(request.source)
    optimizations = map(context.catalog.optimizations.get, request.optimizations)
    fusions = [fusion for optimization in optimizations for fusion in optimization.fusions()]
    exact = {"float32": request.float32, "float32_ops": request.float32_ops}
    sites = fuse(model, fusions, to_float16=request.dtype == "float16", **exact)
    with disk_errors(context.cache_dir):
        ir.save(model, path, external_data=None if is_weightless(model) else f"{FILE}.data")
        record.write(context.out_dir, sites)
    took = watch.took()
    context.say(f"checking the optimized graph of {component}")
    try:
        described = graph.describe(path, strict=True)
    except BuildError as error:
        raise BuildError(
            f"{component} was not optimized ({what}): what the fuser native "
            f"made of it is no valid model. {str(error).rstrip('.')}. Choose fewer optimizations, such as "
            f"--optimization=fp32, or --optimization=as-is for a graph of your own."
        ) from error
    return MadeGraph(**vars(took), graph=described, limits=tuple(find_limits(model)))
