"""The names under which the nodes of a graph are counted."""

from __future__ import annotations

from collections.abc import Sequence

ACTIVATION = "activation"
"""Attribute of a fused norm: 1 says that it has taken in the SiLU behind it."""
SILU = "[silu]"
"""The form of a norm that has."""
ATTENTION = "com.microsoft::MultiHeadAttention"
_NORMS = frozenset(("com.microsoft::GroupNorm", "com.microsoft::SkipGroupNorm"))


def counted_name(domain: str, op_type: str, given: Sequence[bool], *, activated: bool = False) -> str:
    """Return the name under which a node is counted.

    An attention with packed inputs is counted apart from the plain one, and not in addition to it:
    `com.microsoft::MultiHeadAttention[packed-qkv]` has its query alone, which holds key and value too (5-D), and
    `[packed-kv]` has no value, because its key holds it. So is a norm with the SiLU behind it,
    `com.microsoft::GroupNorm[silu]`: without it, half of the rewrite is missing.

    Args:
        domain: Empty or `ai.onnx` for ONNX itself.
        op_type: Type of the node.
        given: Whether each input is given; an optional one may be left out.
        activated: Whether its attribute `activation` is 1.
    """
    name = f"{domain_of(domain)}::{op_type}"
    if name in _NORMS and activated:
        return f"{name}{SILU}"
    query, key, value = (*given, False, False, False)[:3]
    if name != ATTENTION or not query or value:
        return name
    return f"{name}[{'packed-kv' if key else 'packed-qkv'}]"


def domain_of(domain: str) -> str:
    """Return a domain as it is counted: that of ONNX itself is empty."""
    return "" if domain == "ai.onnx" else domain
