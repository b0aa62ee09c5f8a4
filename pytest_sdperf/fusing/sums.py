"""Sums in a graph: which part of them is the bias of a linear layer."""

from __future__ import annotations

import onnx_ir as ir

from pytest_sdperf.fusing.fusion_graph import FusionGraph


def bias_of(value: ir.Value, graph: FusionGraph, *, shared: bool = False) -> tuple[ir.Value, ir.Value | None]:
    """Split a value into an activation and a bias (C,) if it is such a sum and nobody else reads it.

    Args:
        value: Perhaps a sum.
        graph: The graph.
        shared: It may have several readers: the caller has looked at them.

    Returns:
        The activation, of the shape of the value, and the bias; the value itself and None if it is no such sum.
    """
    add = graph.producer(value, "Add")
    if add is None or (len(graph.users(value)) != 1 and not shared) or graph.is_output(value):
        return value, None
    first, second = add.inputs
    for activation, bias in ((first, second), (second, first)):
        if activation is not None and bias is not None and is_channel_weight(bias, activation, graph):
            return activation, bias
    return value, None


def is_channel_weight(weight: ir.Value | None, activation: ir.Value, graph: FusionGraph) -> bool:
    """Say whether a value is a weight (C,) for an activation (..., C)."""
    shape = graph.shapes.fixed(activation)
    if weight is None or not shape or shape[-1] is None or not graph.is_weight(weight, 1):
        return False
    return graph.shapes.fixed(weight) == (shape[-1],)
