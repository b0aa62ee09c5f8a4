"""Convolutions and norms of images that are refused."""

from __future__ import annotations

import by_hand
import numpy as np
from by_hand import GROUP_NORM, convolution, group_norm, make

from pytest_sdperf.fusing.optimizations.fusions.group_norm import GroupNorm
from pytest_sdperf.fusing.optimizations.fusions.nhwc_conv import NhwcConv
from pytest_sdperf.fusing.optimizations.fusions.norm_silu import NormSilu
from pytest_sdperf.fusing.optimizations.fusions.skip_group_norm import SkipGroupNorm


def skip_group_norm(x="float[N, 8, H, W]", z="float[N, 8, H, W]", **lines):
    return group_norm(f"{x} x, {z} z", lines={"t": "Add(x, z)", **GROUP_NORM}, **{**ON_SUM, **lines})


ON_SUM = {"split": "Reshape(t, groups)", "shape": "Shape(t)"}
TWO_NORMS = {
    "i2": "InstanceNormalization <epsilon = 0.00001> (split, ones, zeros)",
    "joined2": "Reshape(i2, shape)",
    "scaled2": "Mul(joined2, beta)",
    "shifted2": "Add(scaled2, gamma)",
    "y": "Mul(shifted, shifted2)",
}


# A fusion and those before it, the graph, and every refusal: node, operator, reason. A node is named after what it
# computes (see `by_hand`).
CASES = {
    "image of unknown size": (
        [NhwcConv()],
        lambda: make(
            {"n": "NonZero(x)", "c": "Cast <to = 1> (n)", "y": "Conv(c, w)"}, "float[N] x", "float y", {"w": (8, 1, 1)}
        ),
        [("y", "Conv", "the shape of its input is not known")],
    ),
    "kernel of 8 bits": (
        [NhwcConv()],
        lambda: make(
            {"k": "DequantizeLinear(q, step)", "y": "Conv(x, k)"},
            "float[N, 4, 6, 6] x",
            "float[N, 8, 4, 4] y",
            {"q": np.ones((8, 4, 3, 3), np.int8), "step": np.float32(0.1)},
        ),
        [("k", "DequantizeLinear", "its kernel is quantized")],
    ),
    "convolution in time": (
        [NhwcConv()],
        lambda: make({"y": "Conv(x, w)"}, "float[N, 4, W] x", "float[N, 8, V] y", {"w": (8, 4, 3)}),
        [("y", "Conv", "its input is no image (N, C, H, W)")],
    ),
    "kernel from an input": (
        [NhwcConv()],
        lambda: convolution("float[N, 4, H, W] x, float[8, 4, 3, 3] k", y="Conv <pads = [1, 1, 1, 1]> (x, k, b)"),
        [("y", "Conv", "its kernel is no weight of rank 4")],
    ),
    "bias from an input": (
        [NhwcConv()],
        lambda: convolution("float[N, 4, H, W] x, float[8] k", y="Conv <pads = [1, 1, 1, 1]> (x, w, k)"),
        [("y", "Conv", "its bias is no weight of rank 1")],
    ),
    "padding by the operator": (
        [NhwcConv()],
        lambda: convolution(y='Conv <auto_pad = "SAME_UPPER"> (x, w, b)'),
        [("y", "Conv", "its padding is chosen by the operator")],
    ),
    "instance norm": (
        [GroupNorm()],
        lambda: make(
            {"y": "InstanceNormalization(x, g, g)"}, "float[N, 8, H, W] x", "float[N, 8, H, W] y", {"g": (8,)}
        ),
        [("y", "InstanceNormalization", "its input is not split into groups by Reshape")],
    ),
    "norm of a sequence": (
        [GroupNorm()],
        lambda: group_norm("float[N, 8, L] x", "float[N, 8, L] y", weights={"gamma": (8, 1), "beta": (8, 1)}),
        [("split", "Reshape", "it normalises no image (N, C, H, W)")],
    ),
    "groups of several samples": (
        [GroupNorm()],
        lambda: group_norm("float[2, 8, H, W] x", "float[2, 8, H, W] y", weights={"groups": np.array([4, 4, -1])}),
        [("split", "Reshape", "its channels are not split into groups of equal size")],
    ),
    "groups through a channel": (
        [GroupNorm()],
        lambda: group_norm(
            "float[N, 6, 4, 4] x", "float[N, 6, 4, 4] y", weights={"gamma": (6, 1, 1), "beta": (6, 1, 1)}
        ),
        [("split", "Reshape", "its channels are not split into groups of equal size")],
    ),
    "groups put together otherwise": (
        [GroupNorm()],
        lambda: group_norm(
            "float[N, 8, 4, 8] x",
            "float[N, 8, 8, 4] y",
            shape="Identity(turned)",
            weights={"turned": np.array([0, 8, 8, 4])},
        ),
        [("joined", "Reshape", "its groups are not put together to the shape that they had")],
    ),
    "groups that are read": (
        [GroupNorm()],
        lambda: group_norm(outputs="float[N, 8, H, W] y, float[N, 4, L] i"),
        [("i", "InstanceNormalization", "its groups are not put together to the shape that they had")],
    ),
    "groups with a scale": (
        [GroupNorm()],
        lambda: group_norm(weights={"ones": (4,)}),
        [("i", "InstanceNormalization", "it scales or shifts its groups")],
    ),
    "norm without scale": (
        [GroupNorm()],
        lambda: group_norm(scaled="Relu(joined)"),
        [("joined", "Reshape", "its result is not scaled by a weight of its channels")],
    ),
    "norm with a scale of columns": (
        [GroupNorm()],
        lambda: group_norm("float[N, 8, 8, 8] x", "float[N, 8, 8, 8] y", weights={"gamma": (8,)}),
        [("scaled", "Mul", "its result is not scaled by a weight of its channels")],
    ),
    "norm without offset": (
        [GroupNorm()],
        lambda: group_norm(shifted="Relu(scaled)"),
        [("scaled", "Mul", "its result is not shifted by a weight of its channels")],
    ),
    "norm with an offset from an input": (
        [GroupNorm()],
        lambda: group_norm(f"{by_hand.IMAGE}, float[N, 8, 1, 1] z", shifted="Add(scaled, z)"),
        [("shifted", "Add", "its result is not shifted by a weight of its channels")],
    ),
    "two group norms of a sum": (
        [GroupNorm(), SkipGroupNorm()],
        lambda: skip_group_norm(**TWO_NORMS, gate="Sigmoid(x)"),
        [("sdperf_GroupNorm_3", "GroupNorm", "another norm has taken in the sum that it normalises")],
    ),
    "sum with one image": (
        [GroupNorm(), SkipGroupNorm()],
        lambda: skip_group_norm(z="float[1, 8, H, W]"),
        [("t", "Add", "the sum that it normalises is one of shapes that the operator does not add")],
    ),
    "sum with a vector for all images": (
        [GroupNorm(), SkipGroupNorm()],
        lambda: group_norm(
            "float[N, 8, H, W] x, float[1, 8] z",
            lines={"z4": "Unsqueeze(z, behind)", "t": "Add(x, z4)", **GROUP_NORM},
            weights={"behind": np.array([2, 3])},
            **ON_SUM,
        ),
        [("t", "Add", "the sum that it normalises is one of shapes that the operator does not add")],
    ),
    "sum with one number for each image": (
        [GroupNorm(), SkipGroupNorm()],
        lambda: group_norm(
            "float[N, 8, H, W] x, float[N, 1] z",
            lines={"z4": "Unsqueeze(z, behind)", "t": "Add(x, z4)", **GROUP_NORM},
            weights={"behind": np.array([2, 3])},
            **ON_SUM,
        ),
        [("t", "Add", "the sum that it normalises is one of shapes that the operator does not add")],
    ),
    "sum with a vector that was never flat": (
        [GroupNorm(), SkipGroupNorm()],
        lambda: skip_group_norm(z="float[N, 8, 1, 1]"),
        [("t", "Add", "the sum that it normalises is one of shapes that the operator does not add")],
    ),
    "SiLU of a norm that others read": (
        [GroupNorm(), NormSilu()],
        lambda: group_norm(outputs="float[N, 8, H, W] y, float[N, 8, H, W] shifted"),
        [("sdperf_GroupNorm_1", "GroupNorm", "its result is read by others than its SiLU")],
    ),
    "SiLU of a norm whose gate others read": (
        [GroupNorm(), NormSilu()],
        lambda: group_norm(outputs="float[N, 8, H, W] y, float[N, 8, H, W] gate"),
        [("sdperf_GroupNorm_1", "GroupNorm", "its result is read by others than its SiLU")],
    ),
    "SiLU of a view of a norm": (
        [GroupNorm(), NormSilu()],
        lambda: group_norm(
            outputs="float[N, 8, L] y",
            weights={"sequence": np.array([0, 8, -1])},
            lines={**GROUP_NORM, "view": "Reshape(shifted, sequence)", "gate": "Sigmoid(view)", "y": "Mul(view, gate)"},
        ),
        [("sdperf_GroupNorm_1", "GroupNorm", "more than a transpose is between it and its SiLU, or others read it")],
    ),
}
