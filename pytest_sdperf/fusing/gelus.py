"""x * 0.5 * (1 + erf(x / sqrt(2))), however an exporter associates it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import onnx_ir as ir

from pytest_sdperf.fusing.fusion import RefusalError
from pytest_sdperf.fusing.fusion_graph import FusionGraph

SAME_NUMBER = 2.0**-11
"""How far, relatively, a constant may be from the number that it stands for: it may have been rounded to float16."""


@dataclass(frozen=True)
class Activation:
    """What an activation is applied to, and its result."""

    source: ir.Value
    result: ir.Value


def is_number(value: ir.Value | None, number: float, graph: FusionGraph) -> bool:
    """Say whether a value is a number, up to rounding."""
    found = graph.scalar(value)
    return found is not None and math.isclose(found, number, rel_tol=SAME_NUMBER)


def find_gelu(node: ir.Node, graph: FusionGraph) -> Activation:
    """Find the Gelu that a node is, or is the error function of.

    Raises:
        RefusalError: It is another activation.
    """
    if node.op_type == "Gelu":
        if "approximate" in node.attributes and node.attributes["approximate"].as_string() != "none":
            raise RefusalError("it is approximated by tanh", node)
        assert node.inputs[0] is not None
        return Activation(node.inputs[0], node.outputs[0])
    source = find_argument(node, graph)
    if source is None:
        raise RefusalError(
            "its argument is not divided by the square root of 2", graph.producer(node.inputs[0]) or node
        )
    one_more = graph.user(node.outputs[0], "Add")
    if one_more is None or graph.scalar(graph.other(one_more, node.outputs[0])) != 1:
        raise RefusalError("1 is not added to its error function", one_more or node)
    result = _result(one_more, source, graph)
    if not graph.shapes.same(source, result):
        raise RefusalError("its constants change the shape of its argument", result.producer())
    return Activation(source, result)


def find_argument(erf: ir.Node, graph: FusionGraph) -> ir.Value | None:
    """Return x if a node is erf(x / sqrt(2))."""
    scaled = graph.producer(erf.inputs[0], "Div", "Mul")
    if scaled is None:
        return None
    first, second = scaled.inputs
    if scaled.op_type == "Div":
        return first if is_number(second, math.sqrt(2), graph) else None
    if is_number(second, math.sqrt(0.5), graph):
        return first
    return second if is_number(first, math.sqrt(0.5), graph) else None


def _result(one_more: ir.Node, source: ir.Value, graph: FusionGraph) -> ir.Value:
    """Multiply on until the product is x * 0.5 * (1 + erf)."""
    value, with_source, factor = one_more.outputs[0], False, 1.0
    while (product := graph.user(value, "Mul")) is not None:
        other = graph.other(product, value)
        number = graph.scalar(other)
        if number is not None:
            factor *= number
        elif with_source or other is value:
            break
        else:
            number = 1.0 if other is source else _multiple(other, source, graph)
            if number is None:
                break
            with_source, factor = True, factor * number
        value = product.outputs[0]
        if with_source and math.isclose(factor, 0.5, rel_tol=SAME_NUMBER):
            return value
    raise RefusalError("the product with its argument and 0.5 is not complete", value.producer())


def _multiple(value: ir.Value, source: ir.Value, graph: FusionGraph) -> float | None:
    """Return the number by which a value is a multiple of another one."""
    product = graph.producer(value, "Mul")
    if product is None or source not in product.inputs:
        return None
    return graph.scalar(graph.other(product, source))
