"""What the operators of a graph say about it: whether it draws random numbers, and whether it is quantized."""

from __future__ import annotations

from collections.abc import Mapping

_DRAWING = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)
_QUANTIZED = frozenset(
    {"ConvInteger", "DequantizeLinear", "DynamicQuantizeLinear", "DynamicQuantizeMatMul", "MatMulBnb4", "MatMulInteger",
     "MatMulIntegerToFloat", "MatMulNBits", "QAttention", "QGemm", "QLinearConv", "QLinearMatMul", "QuantizeLinear"}
)  # fmt: skip


def drawing(counts: Mapping[str, int]) -> str:
    """Return the operators that draw random numbers, such as `2 RandomNormalLike`; empty if there are none.

    Args:
        counts: `domain::op_type` -> nodes.
    """
    return _listed(counts, _DRAWING)


def quantized(counts: Mapping[str, int]) -> str:
    """Return the operators on quantized numbers, such as `24 DequantizeLinear`; empty if there are none."""
    return _listed(counts, _QUANTIZED)


def _listed(counts: Mapping[str, int], names: frozenset[str]) -> str:
    found = {name.rpartition("::")[2]: nodes for name, nodes in counts.items() if nodes}
    return ", ".join(f"{found[name]} {name}" for name in sorted(found) if name in names)
