"""Graphs that lost half of a fusion: norms that are fused, with their SiLU beside them."""

from __future__ import annotations

import onnx_ir as ir

from pytest_sdperf.fusing.layout import NCHW_TO_NHWC, NHWC_TO_NCHW

loses = ("Sigmoid", "QuickGelu", "between transposes")
"""How a SiLU may be written: as two nodes, as ONNX Runtime writes it, and with its argument in the other layout."""


def lose_silus(model: ir.Model, how: str) -> int:
    """Take the SiLU out of each norm that has one, in place, and put it behind; return how many had one."""
    norms = [node for node in model.graph if node.op_type in ("GroupNorm", "SkipGroupNorm")]
    norms = [node for node in norms if node.attributes["activation"].as_int() == 1]
    for node in norms:
        node.attributes["activation"] = ir.AttrInt64("activation", 0)
        readers = list(node.outputs[0].uses())
        result, made = _silu(node.outputs[0], how)
        for user, index in readers:
            user.replace_input_with(index, result)
        model.graph.insert_after(node, made)
    return len(norms)


def _silu(value: ir.Value, how: str) -> tuple[ir.Value, list[ir.Node]]:
    if how == "QuickGelu":
        made = [_node("QuickGelu", value, {"alpha": 1.0}, domain="com.microsoft")]
    elif how == "between transposes":
        first = _node("Transpose", value, {"perm": NHWC_TO_NCHW})
        result, inner = _silu(first.outputs[0], "Sigmoid")
        made = [first, *inner, _node("Transpose", result, {"perm": NCHW_TO_NHWC})]
    else:
        sigmoid = _node("Sigmoid", value)
        made = [sigmoid, _node("Mul", value, None, sigmoid.outputs[0])]
    return made[-1].outputs[0], made


def _node(op_type: str, value: ir.Value, attributes: dict | None = None, *more: ir.Value, domain: str = "") -> ir.Node:
    node = ir.node(op_type, [value, *more], attributes, domain=domain)
    node.outputs[0].name = f"{value.name}_{op_type}"
    node.outputs[0].dtype = value.dtype
    node.name = node.outputs[0].name
    return node
