"""The request of every fuser."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class FuseGraph:
    """An exported float32 graph, and what is made of it.

    Attributes:
        source: Its file.
        component: What it computes.
        optimizations: Names, lowest first.
        dtype: `float32` or `float16`.
        float32: Inputs and outputs of the graph that keep this type.
        float32_ops: Operators that do.
    """

    source: Path
    component: str
    optimizations: tuple[str, ...]
    dtype: str
    float32: tuple[str, ...] = ()
    float32_ops: tuple[str, ...] = ()
