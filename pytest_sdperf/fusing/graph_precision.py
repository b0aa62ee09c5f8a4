"""Which products a graph of half precision computes in single precision all the same, between two casts.

On a GPU such a product costs more than most fusions save: it leaves the tensor cores. And every fusion is there.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_sdperf.fusing.node_names import counted_name

if TYPE_CHECKING:
    import onnx_ir as ir

_OF_ONNX = ("Attention", "Conv", "ConvTranspose", "Gemm", "MatMul")
_OF_MICROSOFT = ("FusedConv", "FusedMatMul", "MultiHeadAttention", "NhwcConv")
PRODUCTS = frozenset((*_OF_ONNX, *_OF_MICROSOFT))


def float32_products(path: Path) -> dict[str, int]:
    """Return `domain::op_type` -> products that compute in float32 in a graph whose weights are mostly narrower.

    Empty for a graph whose weights are not. Their data is not read, and subgraphs are not looked at.
    """
    import onnx_ir as ir

    from pytest_sdperf.fusing import node_types

    graph = ir.load(path).graph
    if not _is_half(graph):
        return {}
    node_types.record(graph)
    found = Counter(
        counted_name(node.domain, node.op_type, [value is not None for value in node.inputs])
        for node in graph
        if node.op_type in PRODUCTS and node.outputs[0].dtype == ir.DataType.FLOAT
    )
    return dict(sorted(found.items()))


def _is_half(graph: ir.Graph) -> bool:
    """Whether more elements of the weights are float16 or bfloat16 than float32."""
    import onnx_ir as ir

    elements: Counter[ir.DataType] = Counter()
    for value in graph.initializers.values():
        if value.const_value is not None:
            elements[value.const_value.dtype] += value.const_value.size
    kinds = ir.DataType
    return elements[kinds.FLOAT16] + elements[kinds.BFLOAT16] > elements[kinds.FLOAT]
