"""Convolutions, norms of images and their layout: fused where that is right, and right where they are not fused."""

from __future__ import annotations

import by_hand
import numpy as np
import onnx_ir as ir
import pytest
import rewriting
from by_hand import CLOSE, GROUP_NORM, INTS, convolution, group_norm, make
from half_fused import lose_silus, loses

from pytest_sdperf.fusing.optimizations.fusions.group_norm import GroupNorm
from pytest_sdperf.fusing.optimizations.fusions.nhwc_conv import NhwcConv
from pytest_sdperf.fusing.optimizations.fusions.norm_silu import NormSilu, SkipNormSilu
from pytest_sdperf.fusing.optimizations.fusions.skip_group_norm import SkipGroupNorm

CONV = [NhwcConv()]
NORM = [GroupNorm()]
ALL = [NhwcConv(), GroupNorm(), SkipGroupNorm()]
SUM = {"split": "Reshape(t, groups)", "shape": "Shape(t)"}
PLAIN = "Conv <pads = [1, 1, 1, 1]>"
WEIGHTS = {
    "w": (8, 4, 3, 3), "b": (8,), "w2": (8, 8, 3, 3), "b2": (8,), "gamma": (8, 1, 1), "beta": (8, 1, 1), **INTS,
    "behind": np.array([2, 3]),
}  # fmt: skip
X = "float[N, 4, H, W] x"
Y = "float[N, 8, H, W] y"


def after_conv(add, inputs=X, outputs=Y, before=None, **changed):
    """The norm of a sum with the result of a convolution."""
    lines = {"c": f"{PLAIN} (x, w, b)", **(before or {}), "t": add, **GROUP_NORM, **SUM, **changed}
    return make(lines, inputs, outputs, WEIGHTS)


def sequence_norm():
    """The norm before the attention of a VAE: of a view of an image, in its three axes."""
    lines = {"view": "Reshape(x, flat)", **GROUP_NORM, "split": "Reshape(view, groups)", "shape": "Shape(view)"}
    del lines["gate"]
    weights = {**WEIGHTS, "flat": np.array([0, 8, -1]), "gamma": (8, 1), "beta": (8, 1)}
    lines["y"] = "Transpose <perm = [0, 2, 1]> (shifted)"
    return make(lines, "float[N, 8, H, W] x", "float[N, L, 8] y", weights)


SECOND = {
    "i2": "InstanceNormalization <epsilon = 0.00001> (split, ones, zeros)",
    "joined2": "Reshape(i2, shape)",
    "scaled2": "Mul(joined2, gamma)",
    "shifted2": "Add(scaled2, beta)",
    "z": "Mul(y, shifted2)",
}
FUSED = {
    # ------------------------------------------------------------------------------------------------ convolutions
    "convolution": (convolution, CONV, {"NhwcConv": 1, "Transpose": 2}),
    "convolution without bias": (lambda: convolution(y=f"{PLAIN} (x, w)"), CONV, {"NhwcConv": 1}),
    "convolution of groups": (
        lambda: convolution(weights={"w": (8, 2, 3, 3)}, y="Conv <pads = [1, 1, 1, 1], group = 2> (x, w, b)"),
        CONV,
        {"NhwcConv": 1},
    ),
    "convolution with strides": (
        lambda: convolution(outputs="float[N, 8, P, Q] y", y="Conv <pads = [0, 0, 1, 1], strides = [2, 2]> (x, w, b)"),
        CONV,
        {"NhwcConv": 1},
    ),
    "kernel shared by two convolutions": (
        lambda: make(
            {"c": f"{PLAIN} (x, w, b)", "y": f"{PLAIN} (c, w)"},
            X,
            "float[N, 4, H, W] y",
            {"w": (4, 4, 3, 3), "b": (4,)},
        ),
        CONV,
        {"NhwcConv": 2, "Transpose": 2},
    ),
    "result read by others": (
        lambda: make({"y": f"{PLAIN} (x, w, b)", "z": "Relu(y)"}, X, f"{Y}, float[N, 8, H, W] z", WEIGHTS),
        CONV,
        {"NhwcConv": 1, "Transpose": 3},
    ),
    # ------------------------------------------------------------------------------------------------- group norms
    "norm": (group_norm, NORM, {"GroupNorm": 1, "Transpose": 2, "Sigmoid": 0}),
    "norm without activation": (lambda: group_norm(y="Relu(shifted)"), NORM, {"GroupNorm": 1, "Sigmoid": 0}),
    "activation read by others": (
        lambda: group_norm(outputs="float[N, 8, H, W] y, float[N, 8, H, W] shifted"),
        NORM,
        {"GroupNorm": 1, "Sigmoid": 1},
    ),
    "gate of something else": (
        lambda: group_norm(y="Mul(x, gate)"),
        NORM,
        {"GroupNorm": 1, "Sigmoid": 1},
    ),
    "scale shared by two norms": (
        lambda: group_norm(outputs="float[N, 8, H, W] z", lines={**GROUP_NORM, **SECOND}),
        NORM,
        {"GroupNorm": 2},
    ),
    "norm of a view": (sequence_norm, NORM, {"GroupNorm": 1, "Transpose": 1}),
    # --------------------------------------------------------------------------------------------------------- sums
    "bias of a convolution": (
        lambda: after_conv("Add(c, s)", f"{X}, float[N, 8, H, W] s"),
        ALL,
        {"SkipGroupNorm": 1, "GroupNorm": 0, "NhwcConv": 1, "bias": 5},
    ),
    "convolution on the right": (
        lambda: after_conv("Add(s, c)", f"{X}, float[N, 8, H, W] s"),
        ALL,
        {"SkipGroupNorm": 1, "bias": 5},
    ),
    "sum read by others": (
        lambda: after_conv("Add(c, s)", f"{X}, float[N, 8, H, W] s", y="Add(shifted, t)"),
        ALL,
        {"SkipGroupNorm": 1, "bias": 5, "Add": 1},
    ),
    "sum that is an output": (
        lambda: after_conv("Add(c, s)", f"{X}, float[N, 8, H, W] s", f"{Y}, float[N, 8, H, W] t"),
        ALL,
        {"SkipGroupNorm": 1, "bias": 5},
    ),
    "convolution read by others": (
        lambda: after_conv("Add(c, s)", f"{X}, float[N, 8, H, W] s", y="Add(shifted, c)"),
        ALL,
        {"SkipGroupNorm": 1, "bias": 4},
    ),
    "convolution that is an output": (
        lambda: after_conv("Add(c, s)", f"{X}, float[N, 8, H, W] s", f"{Y}, float[N, 8, H, W] c"),
        ALL,
        {"SkipGroupNorm": 1, "bias": 4},
    ),
    "convolution added to itself": (lambda: after_conv("Add(c, c)"), ALL, {"SkipGroupNorm": 1, "bias": 4}),
    "two convolutions": (
        lambda: after_conv("Add(c, d)", before={"d": f"{PLAIN} (x, w, b2)"}),
        ALL,
        {"SkipGroupNorm": 1, "bias": 5},
    ),
    "places exchanged before the sum": (
        lambda: after_conv(
            "Add(d, s)",
            "float[N, 4, 8, 8] x, float[N, 8, 8, 8] s",
            "float[N, 8, 8, 8] y",
            before={"d": "Transpose <perm = [0, 2, 1, 3]> (c)"},
        ),
        ALL,
        {"SkipGroupNorm": 1, "bias": 4},
    ),
    "vector of channels": (
        lambda: after_conv("Add(c, v4)", f"{X}, float[N, 8] v", before={"v4": "Unsqueeze(v, behind)"}),
        ALL,
        {"SkipGroupNorm": 1, "bias": 5},
    ),
    "two norms of a sum": (
        lambda: make(
            {"t": "Add(x, s)", **GROUP_NORM, **SUM, **SECOND},
            "float[N, 8, H, W] x, float[N, 8, H, W] s",
            "float[N, 8, H, W] z",
            WEIGHTS,
        ),
        ALL,
        {"SkipGroupNorm": 1, "GroupNorm": 1},
    ),
    "norm of a biased value": (
        lambda: make({"t": "Add(x, beta)", **GROUP_NORM, **SUM}, "float[N, 8, H, W] x", Y, WEIGHTS),
        ALL,
        {"SkipGroupNorm": 0, "GroupNorm": 1},
    ),
}


@pytest.mark.parametrize("name", FUSED)
def test_images_are_fused(name):
    build, fusions, expected = FUSED[name]
    model = build()
    by_hand.fuse(model, *fusions)
    counts = rewriting.counts(model)
    inputs = [len(node.inputs) for node in model.graph if node.op_type == "SkipGroupNorm"]
    found = {op: inputs[0] if op == "bias" else counts[f"com.microsoft::{op}"] or counts[op] for op in expected}
    assert found == expected
    assert max(by_hand.errors(build, model)) < CLOSE


@pytest.mark.parametrize("name", [name for name, (_, fusions, _) in FUSED.items() if fusions is ALL])
def test_a_norm_that_was_fused_before_takes_in_the_sum_before_it(name):
    build, _, expected = FUSED[name]
    model = build()
    by_hand.fuse(model, NhwcConv(), GroupNorm())
    by_hand.fuse(model, SkipGroupNorm())
    found = [node for node in model.graph if node.op_type == "SkipGroupNorm"]
    assert len(found) == expected["SkipGroupNorm"]
    assert [len(node.inputs) for node in found] == [expected.get("bias", 4) for _ in found]
    assert max(by_hand.errors(build, model)) < CLOSE


@pytest.mark.parametrize("how", loses)
@pytest.mark.parametrize("sums", [False, True])
def test_a_norm_that_was_fused_without_its_silu_takes_it_in(sums, how):
    def build():
        return after_conv("Add(c, s)", f"{X}, float[N, 8, H, W] s") if sums else group_norm()

    model = build()
    by_hand.fuse(model, *ALL)
    assert lose_silus(model, how) == 1
    by_hand.fuse(model, NormSilu(), SkipNormSilu())
    counts = rewriting.counts(model)
    (norm,) = (node for node in model.graph if node.op_type in ("GroupNorm", "SkipGroupNorm"))
    assert norm.attributes["activation"].as_int() == 1
    assert [counts[op] for op in ("Sigmoid", "Mul", "com.microsoft::QuickGelu")] == [0, 0, 0]
    assert max(by_hand.errors(build, model)) < CLOSE


def test_the_activation_of_clip_is_not_taken_for_a_silu():
    model = group_norm()
    by_hand.fuse(model, *ALL)
    lose_silus(model, "QuickGelu")
    (gelu,) = (node for node in model.graph if node.op_type == "QuickGelu")
    gelu.attributes["alpha"] = ir.AttrFloat32("alpha", 1.702)
    assert by_hand.fuse(model, NormSilu()) == []
    assert rewriting.counts(model)["com.microsoft::QuickGelu"] == 1


def test_a_shared_kernel_is_transposed_once():
    model = FUSED["kernel shared by two convolutions"][0]()
    by_hand.fuse(model, NhwcConv())
    assert [name for name in model.graph.initializers if "nhwc" in name] == ["w.nhwc"]


def test_a_shared_scale_is_reshaped_once():
    model = FUSED["scale shared by two norms"][0]()
    by_hand.fuse(model, GroupNorm())
    assert sorted(model.graph.initializers) == ["beta.channels", "gamma.channels"]


def test_a_weight_that_has_the_name_of_a_transposed_one():
    def build():
        model = make({"c": f"{PLAIN} (x, w, b)", "y": "Add(c, extra)"}, X, Y, {**WEIGHTS, "extra": (8, 1, 1)})
        model.graph.initializers["extra"].name = "w.nhwc"
        return model

    model = build()
    by_hand.fuse(model, NhwcConv())
    assert max(by_hand.errors(build, model)) < CLOSE


def test_a_value_that_has_the_name_of_a_new_one():
    def build():
        model = make({"c": f"{PLAIN} (x, w, b)", "d": "Relu(c)", "y": f"{PLAIN} (d, w2, b2)"}, X, Y, WEIGHTS)
        for number, node in enumerate(model.graph):
            if node.outputs[0].name != "y":
                node.outputs[0].name = f"sdperf_Transpose_{number}"
        model.graph.inputs[0].name = "sdperf_NhwcConv_2"
        return model

    model = build()
    by_hand.fuse(model, NhwcConv())
    names = [value.name for node in model.graph for value in node.outputs] + [model.graph.inputs[0].name]
    assert len(names) == len(set(names))
    assert max(by_hand.errors(build, model)) < CLOSE


def test_a_default_that_a_caller_can_override_is_no_weight():
    model = convolution()
    kernel = model.graph.initializers["w"]
    model.graph.inputs.append(kernel)
    sites = by_hand.fuse(model, NhwcConv())
    assert by_hand.refusals(sites, NhwcConv()) == [("y", "Conv", "its kernel is no weight of rank 4")]


def test_a_fused_graph_is_fused_again():
    def build():
        return after_conv("Add(c, s)", f"{X}, float[N, 8, H, W] s")

    model = build()
    by_hand.fuse(model, NhwcConv())
    by_hand.fuse(model, GroupNorm())
    assert max(by_hand.errors(build, model)) < CLOSE
