"""What CUDA kernels would throw on."""

from __future__ import annotations

import by_hand
import graph_zoo
import numpy as np
import pytest
import rewriting
from by_hand import make

from pytest_sdperf.fusing.limits import find_limits
from pytest_sdperf.fusing.optimizations.fusions.attention import Attention
from pytest_sdperf.fusing.optimizations.fusions.bias_split_gelu import BiasSplitGelu
from pytest_sdperf.fusing.optimizations.fusions.group_norm import GroupNorm
from pytest_sdperf.fusing.optimizations.fusions.packed_qkv import PackedQkv


def split_gelu(half):
    lines = {"y": "com.microsoft.BiasSplitGelu(x, b)"}
    weights = {"b": np.zeros(2 * half, np.float32)}
    return make(lines, f"float[N, S, {2 * half}] x", f"float[N, S, {half}] y", weights)


def group_norm(channels, groups):
    lines = {"y": f"com.microsoft.GroupNorm <groups = {groups}, activation = 0> (x, g, g)"}
    return make(lines, f"float[N, H, W, {channels}] x", "float[N, H, W, C] y", {"g": np.ones(channels, np.float32)})


def heads(size):
    lines = {"y": "com.microsoft.MultiHeadAttention <num_heads = 2> (x, x, x)"}
    return make(lines, f"float[N, S, {2 * size}] x", f"float[N, S, {2 * size}] y", {})


HALVES = "it has 1280, 2560, 3072, 5120, 6144"
HEADS = "it has them for multiples of 8 up to 1024"
CASES = {
    "half of 1280": (split_gelu(1280), []),
    "half of 6144": (split_gelu(6144), []),
    "half of 1024": (split_gelu(1024), [f"BiasSplitGelu has no kernel for halves of 1024; {HALVES}"]),
    "two channels per group": (group_norm(64, 32), []),
    "three channels per group": (
        group_norm(96, 32),
        ["GroupNorm needs an even number of channels per group, not 96 in 32 groups"],
    ),
    "channels that are not split evenly": (
        group_norm(40, 32),
        ["GroupNorm needs an even number of channels per group, not 40 in 32 groups"],
    ),
    "heads of 64": (heads(64), []),
    "heads of 512": (heads(512), []),
    "heads of 12": (heads(12), [f"MultiHeadAttention has no fused kernel for heads of 12; {HEADS}"]),
    "heads of 1032": (heads(1032), [f"MultiHeadAttention has no fused kernel for heads of 1032; {HEADS}"]),
    "another domain": (make({"y": "Relu(x)"}, "float[N] x", "float[N] y", {}), []),
}


@pytest.mark.parametrize("name", CASES)
def test_limits(name):
    model, expected = CASES[name]
    assert find_limits(model) == expected


def test_limits_of_fused_graphs():
    """What the fuser writes is understood, packed or not."""
    model = by_hand.geglu()
    by_hand.fuse(model, BiasSplitGelu())
    assert find_limits(model) == [f"BiasSplitGelu has no kernel for halves of 32; {HALVES}"]
    weights = {"heads": np.array([0, 0, 4, 4])}
    for fusions in ([Attention()], [Attention(), PackedQkv()]):
        for inputs in (by_hand.SEQUENCES, "float[N, S, 16] x"):
            own = {} if "c" in inputs else {"k": "MatMul(x, wk)", "v": "MatMul(x, wv)"}
            model = by_hand.attention(inputs, weights=weights, **own)
            by_hand.fuse(model, *fusions)
            assert find_limits(model) == [f"MultiHeadAttention has no fused kernel for heads of 4; {HEADS}"]
    odd = {"gamma": (12, 1, 1), "beta": (12, 1, 1)}
    model = by_hand.group_norm("float[N, 12, H, W] x", "float[N, 12, H, W] y", weights=odd)
    by_hand.fuse(model, GroupNorm())
    assert find_limits(model) == ["GroupNorm needs an even number of channels per group, not 12 in 4 groups"]


def test_equal_limits_are_counted():
    model = graph_zoo.load_structure("torch-2.13/sd15-thin-unet-dynamo-18-static")
    rewriting.build(model, rewriting.LAST)
    assert find_limits(model) == [
        f"BiasSplitGelu has no kernel for halves of 1024; {HALVES} (6 nodes)",
        f"BiasSplitGelu has no kernel for halves of 256; {HALVES} (5 nodes)",
        f"BiasSplitGelu has no kernel for halves of 512; {HALVES} (5 nodes)",
    ]
