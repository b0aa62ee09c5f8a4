"""Sizes that the CUDA kernels of ONNX Runtime exist for. Standard library only at import time."""

from __future__ import annotations

from pytest_sdperf.core.model import Model

# One instance of the kernel of BiasSplitGelu per half size; anything else throws at run time (onnxruntime 1.31).
SPLIT_GELU_HALVES = (1280, 2560, 3072, 5120, 6144)
# Fused kernels of attention load heads in vectors of 8, and hold one head in registers and shared memory.
HEAD_MULTIPLE = 8
LARGEST_HEAD = 1024
# A feed-forward network of a UNet's transformer is this much wider than its block.
_WIDENING = 4


def without_kernels(model: Model) -> frozenset[str]:
    """Return the optimizations whose operators have no CUDA kernel at the widths of a model's UNet."""
    widths = model.config("unet").get("block_out_channels", ()) if "unet" in model.components else ()
    fits = all(_WIDENING * width in SPLIT_GELU_HALVES for width in widths)
    return frozenset() if fits else frozenset({"bias-split-gelu"})
