"""The fuser of this project: a model and a list of fusions -> the fused model, and every place that was looked at."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import onnx_ir as ir

from pytest_sdperf.fusing import decompositions, half, layout, opset, tidy
from pytest_sdperf.fusing.fusion import Fusion, run
from pytest_sdperf.fusing.fusion_graph import FusionGraph
from pytest_sdperf.fusing.record import Site


def ready(model: ir.Model) -> FusionGraph:
    """Return the graph of a unified model in the one form that fusions are made for, whatever exported it.

    Raises:
        BuildError: It holds an operator in a form that no exporter emits.
    """
    graph = FusionGraph(model)
    decompositions.decompose(graph)
    tidy.simplify(graph)
    return graph


def fuse(
    model: ir.Model,
    fusions: Sequence[Fusion],
    *,
    to_float16: bool = False,
    float32: Collection[str] = (),
    float32_ops: Collection[str] = (),
) -> list[Site]:
    """Fuse a model in place.

    Args:
        model: As an exporter emits it, float32 or float16. Weights without data stay without.
        fusions: In the order of the ladder: a later one may build on what an earlier one made.
        to_float16: Convert to float16 afterwards.
        float32: Inputs and outputs that stay float32 in that case.
        float32_ops: Operators that stay float32 in that case.

    Returns:
        Every place that a fusion looked at, applied or refused, in the order of the fusions.

    Raises:
        BuildError: The model needs an opset for which ONNX Runtime's CUDA provider has no kernels, or holds graphs
            within its graph and is to be converted.
    """
    tidy.unify(model)
    graph = ready(model)
    sites = [site for fusion in fusions for site in run(fusion, graph)]
    layout.settle(graph)
    # First: which operators take float16 is said by the opset that the graph will declare.
    opset.declare(graph)
    if to_float16:
        half.to_half(graph, float32=float32, float32_ops=float32_ops)
    graph.record_shapes()
    tidy.finish(model)
    return sites
