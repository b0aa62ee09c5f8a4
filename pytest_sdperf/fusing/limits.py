"""What the CUDA kernels of ONNX Runtime 1.31 throw on, or run slowly, found before a GPU is asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import onnx_ir as ir

from pytest_sdperf.core.cuda_kernels import HEAD_MULTIPLE, LARGEST_HEAD, SPLIT_GELU_HALVES
from pytest_sdperf.fusing.fusion_graph import MICROSOFT


def find_limits(model: ir.Model) -> list[str]:
    """Return one sentence per kind of operator that would throw, or run by no fused kernel, on a CUDA GPU."""
    found: Counter[str] = Counter()
    for node in model.graph:
        if node.domain == MICROSOFT:
            found.update(_limits(node))
    return [f"{text} ({count} nodes)" if count > 1 else text for text, count in sorted(found.items())]


def _limits(node: ir.Node) -> Iterator[str]:
    if node.op_type == "BiasSplitGelu":
        half = _size(node.inputs[1], 0) // 2
        if half not in SPLIT_GELU_HALVES:
            allowed = ", ".join(map(str, SPLIT_GELU_HALVES))
            yield f"BiasSplitGelu has no kernel for halves of {half}; it has {allowed}"
    elif node.op_type in ("GroupNorm", "SkipGroupNorm"):
        channels, groups = _size(node.inputs[1], 0), node.attributes["groups"].as_int()
        if channels % groups or (channels // groups) % 2:
            yield f"{node.op_type} needs an even number of channels per group, not {channels} in {groups} groups"
    elif node.op_type == "MultiHeadAttention":
        size = _head_size(node)
        if size % HEAD_MULTIPLE or size > LARGEST_HEAD:
            yield (
                f"MultiHeadAttention has no fused kernel for heads of {size}; it has them for multiples of "
                f"{HEAD_MULTIPLE} up to {LARGEST_HEAD}"
            )


def _head_size(node: ir.Node) -> int:
    """Return the size of the heads; 0 if the graph does not say it."""
    query = node.inputs[0]
    packed = query is not None and query.shape is not None and len(query.shape) == 5
    return _size(query, -1) // (1 if packed else node.attributes["num_heads"].as_int())


def _size(value: ir.Value | None, axis: int) -> int:
    shape = None if value is None else value.shape
    size = None if shape is None else shape[axis]
    return size if isinstance(size, int) else 0
