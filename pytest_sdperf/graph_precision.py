"""Which products a graph of half precision computes in single precision all the same, between two casts.

On a GPU such a product costs more than most fusions save: it leaves the tensor cores. And every fusion is there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_sdperf.node_names import counted_name

if TYPE_CHECKING:
    import onnx

_OF_ONNX = ("Attention", "Conv", "ConvTranspose", "Gemm", "MatMul")
_OF_MICROSOFT = ("FusedConv", "FusedMatMul", "MultiHeadAttention", "NhwcConv")
PRODUCTS = frozenset((*_OF_ONNX, *_OF_MICROSOFT))
# Whose results are no floating-point numbers, whatever they read.
_OTHERS = frozenset(
    (
        *("And", "Equal", "Greater", "GreaterOrEqual", "IsInf", "IsNaN", "Less", "LessOrEqual", "Not", "Or", "Xor"),
        *("ArgMax", "ArgMin", "NonZero", "Shape", "Size"),
    )
)


def float32_products(path: Path) -> dict[str, int]:
    """Return `domain::op_type` -> products that compute in float32 in a graph whose weights are mostly narrower.

    Empty for a graph whose weights are not. Their data is not read, and subgraphs are not looked at.
    """
    import onnx

    graph = onnx.load(path, load_external_data=False).graph
    if not _is_half(graph):
        return {}
    types = _known_types(graph)
    found: Counter[str] = Counter()
    for node in graph.node:
        # The type of a result that nobody wrote down is that of what is computed with: the first floating-point input.
        given = next((types[name] for name in node.input if types.get(name) in _floating()), 0)
        for name in node.output:
            types.setdefault(name, _made(node, given, types))
        if node.op_type in PRODUCTS and given == onnx.TensorProto.FLOAT:
            name = counted_name(node.domain, node.op_type, [bool(name) for name in node.input])
            found[name] += 1
    return dict(sorted(found.items()))


def _floating() -> tuple[int, ...]:
    import onnx

    kinds = onnx.TensorProto
    return kinds.FLOAT16, kinds.BFLOAT16, kinds.FLOAT, kinds.DOUBLE


def _is_half(graph: onnx.GraphProto) -> bool:
    """Whether more elements of the weights are float16 or bfloat16 than float32."""
    import math

    import onnx

    elements: Counter[int] = Counter()
    for tensor in graph.initializer:
        elements[tensor.data_type] += math.prod(tensor.dims)
    kinds = onnx.TensorProto
    return elements[kinds.FLOAT16] + elements[kinds.BFLOAT16] > elements[kinds.FLOAT]


def _known_types(graph: onnx.GraphProto) -> dict[str, int]:
    types = {tensor.name: tensor.data_type for tensor in graph.initializer}
    for value in (*graph.input, *graph.output, *graph.value_info):
        if value.type.tensor_type.elem_type:
            types.setdefault(value.name, value.type.tensor_type.elem_type)
    return types


def _made(node: onnx.NodeProto, given: int, types: Mapping[str, int]) -> int:
    """Return the type of a node's results where the file does not say it; 0 where they are no such numbers."""
    import onnx

    attributes: Mapping[str, onnx.AttributeProto] = {attribute.name: attribute for attribute in node.attribute}
    if node.op_type == "Cast":
        return int(attributes["to"].i)
    if node.op_type in ("Constant", "ConstantOfShape"):
        return int(attributes["value"].t.data_type) if "value" in attributes else onnx.TensorProto.FLOAT
    if node.op_type == "CastLike":
        return types.get(node.input[1], 0)
    return 0 if node.op_type in _OTHERS else given
