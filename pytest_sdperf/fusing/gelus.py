"""x * 0.5 * (1 + erf(x / sqrt(2))), however an exporter associates it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import onnx_ir as ir

from pytest_sdperf.fusing.fusion import Refused
from pytest_sdperf.fusing.fusion_graph import FusionGraph


@dataclass(frozen=True)
class Activation:
    """What an activation is applied to, and its result."""

    source: ir.Value
    result: ir.Value


def find_gelu(node: ir.Node, graph: FusionGraph) -> Activation:
    """Find the Gelu that a node is, or is the error function of.

    Raises:
        Refused: It is another activation.
    """
    if node.op_type == "Gelu":
        if "approximate" in node.attributes and node.attributes["approximate"].as_string() != "none":
            raise Refused("it is approximated by tanh", node)
        assert node.inputs[0] is not None
        return Activation(node.inputs[0], node.outputs[0])
    source = _source(node, graph)
    one_more = graph.user(node.outputs[0], "Add")
    if one_more is None or graph.scalar(graph.other(one_more, node.outputs[0])) != 1:
        raise Refused("1 is not added to its error function", one_more or node)
    return Activation(source, _result(one_more, source, graph))


def _source(erf: ir.Node, graph: FusionGraph) -> ir.Value:
    scaled = graph.producer(erf.inputs[0], "Div", "Mul")
    if scaled is None:
        raise Refused("its argument is not divided by the square root of 2", erf)
    first, second = scaled.inputs
    for source, factor in ((first, graph.scalar(second)), (second, graph.scalar(first))):
        wanted = math.sqrt(2) if scaled.op_type == "Div" else math.sqrt(0.5)
        if source is not None and factor is not None and math.isclose(factor, wanted, rel_tol=1e-3):
            return source
    raise Refused("its argument is not divided by the square root of 2", scaled)


def _result(one_more: ir.Node, source: ir.Value, graph: FusionGraph) -> ir.Value:
    """Multiply on until the product is x * 0.5 * (1 + erf)."""
    value, with_source, factor = one_more.outputs[0], False, 1.0
    while (product := graph.user(value, "Mul")) is not None:
        other = graph.other(product, value)
        number = graph.scalar(other)
        if number is not None:
            factor *= number
        elif other is source and not with_source:
            with_source = True
        else:
            half = graph.producer(other, "Mul")
            number = None if half is None or source not in half.inputs else graph.scalar(graph.other(half, source))
            if number is None or with_source:
                break
            with_source, factor = True, factor * number
        value = product.outputs[0]
        if with_source and math.isclose(factor, 0.5, rel_tol=1e-3):
            return value
    raise Refused("the product with its argument and 0.5 is not complete", value.producer())
