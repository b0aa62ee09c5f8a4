"""What the CUDA kernels of ONNX Runtime 1.31 throw on, found before a GPU is asked."""

from __future__ import annotations

from collections import Counter

import onnx_ir as ir

from pytest_sdperf.fusing.fusion_graph import MICROSOFT

# One instance of the kernel per half size; anything else throws at run time.
SPLIT_GELU_HALVES = (1280, 2560, 3072, 5120, 6144)
# Fused kernels of attention load heads in vectors of 8.
HEAD_MULTIPLE = 8


def find_limits(model: ir.Model) -> list[str]:
    """Return one sentence per kind of operator that would throw, or run by no fused kernel, on a CUDA GPU."""
    found: Counter[str] = Counter()
    for node in model.graph:
        if node.domain == MICROSOFT:
            found.update(_limits(node))
    return [f"{text} ({count} nodes)" if count > 1 else text for text, count in sorted(found.items())]


def _limits(node: ir.Node) -> list[str]:
    if node.op_type == "BiasSplitGelu":
        half = _size(node.inputs[1], 0) // 2
        allowed = ", ".join(map(str, SPLIT_GELU_HALVES))
        return (
            [] if half in SPLIT_GELU_HALVES else [f"BiasSplitGelu has no kernel for halves of {half}; it has {allowed}"]
        )
    if node.op_type in ("GroupNorm", "SkipGroupNorm"):
        channels, groups = _size(node.inputs[1], 0), node.attributes["groups"].as_int()
        if channels % groups or (channels // groups) % 2:
            return [f"{node.op_type} needs an even number of channels per group, not {channels} in {groups} groups"]
    return []


def _size(value: ir.Value | None, axis: int) -> int:
    shape = None if value is None else value.shape
    size = None if shape is None else shape[axis]
    return size if isinstance(size, int) else 0
