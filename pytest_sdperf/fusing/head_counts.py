"""Attentions whose number of heads does not fit: such a graph loads, and its kernels throw when it runs."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from pytest_sdperf.fusing.fusion_graph import MICROSOFT
from pytest_sdperf.fusing.shapes import Shapes

# Domain and operator -> inputs of (batch, tokens, hidden size), each with the attribute that cuts it into heads.
_CUT = {
    (MICROSOFT, "MultiHeadAttention"): ((0, "num_heads"), (1, "num_heads"), (2, "num_heads")),
    ("", "Attention"): ((0, "q_num_heads"), (1, "kv_num_heads"), (2, "kv_num_heads")),
}


def misfits(model: ir.Model) -> Iterator[str]:
    """Yield one sentence for each attention that cannot be cut into its heads, with what would fit."""
    nodes = [node for node in model.graph if (node.domain, node.op_type) in _CUT]
    shapes = Shapes(model.graph) if nodes else None
    for node in nodes:
        for index, name in _CUT[node.domain, node.op_type]:
            value = node.inputs[index] if index < len(node.inputs) else None
            sizes = shapes.fixed(value) if shapes is not None and value is not None else None
            if sizes is None or len(sizes) != 3 or sizes[-1] is None or name not in node.attributes:
                continue
            hidden, heads = sizes[-1], node.attributes[name].as_int()
            if heads < 1 or hidden % heads:
                yield _sentence(node, name, heads=heads, hidden=hidden)
                break


def _sentence(node: ir.Node, name: str, *, heads: int, hidden: int) -> str:
    fitting = [str(count) for count in range(1, hidden + 1) if not hidden % count]
    return (
        f"{node.op_type} {str(node.name or node.outputs[0].name)!r} has {name}={heads}, which does not divide its "
        f"hidden size of {hidden}; what divides it: {', '.join(fitting)}"
    )
