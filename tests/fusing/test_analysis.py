"""What a graph's own structure lets expect, beside what is known of these models; and what is said of fused graphs."""

from __future__ import annotations

import functools

import graph_zoo
import numpy as np
import onnx_ir as ir
import pytest
from half_fused import lose_silus, loses
from onnx import TensorProto, helper
from rewriting import build
from zoo_targets import counted

from pytest_sdperf.core import ladder
from pytest_sdperf.fusing import layout
from pytest_sdperf.fusing.analysis import ATTENTION, LEFT, analyze, begun, budgets, expected_sites, standing
from pytest_sdperf.fusing.native import fuse
from pytest_sdperf.fusing.optimizations import LADDER
from pytest_sdperf.fusing.record import Standing

OPTIMIZATIONS = {optimization.name: optimization for optimization in LADDER}
MICROSOFT = "com.microsoft::"
UNET = {
    "SkipLayerNormalization": 32, "Gelu": 0, "MultiHeadAttention": 0, "MultiHeadAttention[packed-qkv]": 16,
    "MultiHeadAttention[packed-kv]": 16, "NhwcConv": 98, "GroupNorm[silu]": 16, "SkipGroupNorm": 16,
    "SkipGroupNorm[silu]": 29, "BiasSplitGelu": 16, "BiasAdd": 16,
}  # fmt: skip
KNOWN = {
    "torch-2.13/sd15-thin-unet-dynamo-18-static": (UNET, {"LayerNormalization": 16, "Conv": 0}),
    "torch-2.13/sd15-thin-unet-dynamo-23-dynamic": (UNET, {"LayerNormalization": 16, "Conv": 0}),
    "torch-2.13/sd15-thin-unet-torchscript-17-static": (UNET, {"LayerNormalization": 16, "Conv": 0}),
    "torch-2.13/sd15-thin-unet-dynamo-18-static-float16": (UNET, {"LayerNormalization": 16, "Conv": 0}),
    "torch-2.13/sd15-thin-text_encoder-dynamo-18-static": (
        {"SkipLayerNormalization": 24, "QuickGelu": 12, "MultiHeadAttention": 12},
        {"LayerNormalization": 1},
    ),
    "torch-2.13/sdxl-thin-text_encoder_2-dynamo-18-static": (
        {"SkipLayerNormalization": 64, "BiasGelu": 32, "MultiHeadAttention": 32},
        {"LayerNormalization": 1},
    ),
    "torch-2.13/sd15-thin-vae_decoder-torchscript-17-static": (
        {"MultiHeadAttention": 1, "NhwcConv": 36, "GroupNorm[silu]": 18, "SkipGroupNorm": 1, "SkipGroupNorm[silu]": 11},
        {"Conv": 0},
    ),
}
UNET_NAME = "torch-2.13/sd15-thin-unet-dynamo-18-static"
FUSIONS = [fusion for optimization in LADDER for fusion in optimization.fusions()]


@functools.cache
def _fused(name):
    model = graph_zoo.load_structure(name)
    fuse(model, FUSIONS)
    return model


def fused(name):
    """A graph of the zoo with every fusion: a new one at each call."""
    return _fused(name).clone()


def counts(model, optimizations=OPTIMIZATIONS):
    return {op: len(paths) for op, paths in expected_sites(analyze(model, optimizations), optimizations).items()}


@pytest.mark.parametrize("name", KNOWN)
def test_the_structure_of_a_graph_lets_expect_what_its_module_does(name):
    ours, plain = KNOWN[name]
    wanted = {**{f"{MICROSOFT}{op}": nodes for op, nodes in ours.items()}, **{f"::{op}": n for op, n in plain.items()}}
    assert counts(graph_zoo.load_structure(name)) == wanted


def test_lower_optimizations_let_expect_their_own_operators_alone():
    optimizations = {name: OPTIMIZATIONS[name] for name in ("fp32", "fp16", "fmha")}
    assert counts(graph_zoo.load_structure(UNET_NAME), optimizations) == {
        f"{MICROSOFT}SkipLayerNormalization": 32,
        f"{MICROSOFT}Gelu": 16,
        f"{MICROSOFT}MultiHeadAttention": 32,
        "::LayerNormalization": 16,
    }


def test_sites_are_module_paths():
    optimizations = {name: OPTIMIZATIONS[name] for name in ("fp32", "fp16", "fmha")}
    sites = expected_sites(analyze(graph_zoo.load_structure(UNET_NAME), optimizations), optimizations)
    assert "unet.mid_block.attentions.0.transformer_blocks.0.attn1" in sites[f"{MICROSOFT}MultiHeadAttention"]


def test_what_a_fusion_refuses_is_expected_all_the_same():
    model = graph_zoo.load_structure(UNET_NAME)
    # Two attentions whose probabilities somebody else reads, too.
    for softmax in [node for node in model.graph if node.op_type == "Softmax"][:2]:
        model.graph.outputs.append(softmax.outputs[0])
    found = analyze(model, OPTIMIZATIONS)
    wanted = {op: len(paths) for op, paths in expected_sites(found, OPTIMIZATIONS).items()}
    packed = (wanted[f"{MICROSOFT}MultiHeadAttention[packed-qkv]"], wanted[f"{MICROSOFT}MultiHeadAttention[packed-kv]"])
    assert wanted[f"{MICROSOFT}MultiHeadAttention"] == 2
    assert sum(packed) == 30
    assert [place.fused for place in found.places["fmha"]].count(False) == 2


def test_norms_that_were_exported_as_their_parts_are_expected():
    nodes = [
        helper.make_node("ReduceMean", ["x", "axes"], ["mean"]),
        helper.make_node("Sub", ["x", "mean"], ["centred"]),
        helper.make_node("Pow", ["centred", "two"], ["squared"]),
        helper.make_node("ReduceMean", ["squared", "axes"], ["variance"]),
        helper.make_node("Add", ["variance", "epsilon"], ["kept"]),
        helper.make_node("Sqrt", ["kept"], ["deviation"]),
        helper.make_node("Div", ["centred", "deviation"], ["y"]),
    ]
    constants = [
        helper.make_tensor("axes", TensorProto.INT64, [1], [-1]),
        helper.make_tensor("two", TensorProto.FLOAT, [], [2.0]),
        helper.make_tensor("epsilon", TensorProto.FLOAT, [], [1e-5]),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 16, 32]) for name in ("x", "y")]
    proto = helper.make_model(helper.make_graph(nodes, "norm", ends[:1], ends[1:], constants))
    assert counts(ir.from_proto(proto)) == {"::LayerNormalization": 1}


def test_nothing_is_left_in_a_graph_that_was_fused_to_the_last_optimization():
    found = standing(analyze(fused(UNET_NAME), OPTIMIZATIONS), OPTIMIZATIONS)
    assert {optimization: one.left for optimization, one in found.items()} == {
        optimization: {} for optimization in list(OPTIMIZATIONS)[1:]
    }
    assert {optimization: one.present for optimization, one in found.items()} == {
        "fp16": 48, "fmha": 32, "nhwc-conv": 98, "group-norm": 61, "bias-split-gelu": 16, "packed-qkv": 32,
        "bias-add": 16,
    }  # fmt: skip


def test_where_something_could_be_fused_is_told_with_what_and_whether_it_would_be():
    model = graph_zoo.load_structure(UNET_NAME)
    plain = begun(analyze(model.clone(), OPTIMIZATIONS))
    attentions = [site for site in plain if site.op == ATTENTION]
    assert {(site.op_type, site.reason) for site in attentions} == {("Softmax", f"{LEFT} fuses it")}
    assert (len(attentions), len({site.path for site in attentions}), all(site.node for site in attentions)) == (
        32, 32, True,
    )  # fmt: skip
    # A norm that scales its groups is refused, and says so.
    norm = next(node for node in model.graph if node.op_type == "InstanceNormalization")
    norm.replace_input_with(1, norm.inputs[2])
    (refused,) = {
        site.reason
        for site in begun(analyze(model, OPTIMIZATIONS))
        if site.node == norm.name and "refuse" in site.reason
    }
    assert refused == f"{LEFT} would refuse it: it scales or shifts its groups"


def test_what_a_half_fused_graph_lacks_is_counted_by_what_it_has_instead():
    model = graph_zoo.load_structure(UNET_NAME)
    fuse(model, [fusion for name in ("fp16", "nhwc-conv") for fusion in OPTIMIZATIONS[name].fusions()])
    # As onnxruntime's optimizer leaves it: shapes of values within are not in the file.
    for node in model.graph:
        for value in node.outputs:
            if not value.is_graph_output():
                value.shape = None
    found = standing(analyze(model, OPTIMIZATIONS), OPTIMIZATIONS)
    assert found == {
        "fp16": Standing(48, {}),
        "fmha": Standing(0, {"Softmax": 32}),
        "nhwc-conv": Standing(98, {}),
        "group-norm": Standing(0, {"InstanceNormalization": 61}),
        "bias-split-gelu": Standing(0, {"Gelu": 16}),
        "packed-qkv": Standing(0, {"Softmax": 32}),
        "bias-add": Standing(0, {"Add": 16}),
    }


def test_an_attention_with_biases_is_no_place_for_packing():
    optimizations = {name: OPTIMIZATIONS[name] for name in ("fp32", "fp16", "fmha", "packed-qkv")}
    found = analyze(graph_zoo.load_structure("torch-2.13/sd15-thin-text_encoder-dynamo-18-static"), optimizations)
    assert found.places["packed-qkv"] == []
    assert np.all([place.fused for place in found.places["fmha"]])


def test_what_was_fused_before_is_expected_of_lower_optimizations_too():
    model = graph_zoo.load_structure("torch-2.13/sd15-thin-vae_decoder-dynamo-18-static")
    fuse(model, OPTIMIZATIONS["nhwc-conv"].fusions())
    assert counts(model, {name: OPTIMIZATIONS[name] for name in ("fp32", "fp16")}) == {f"{MICROSOFT}NhwcConv": 36}


# ------------------------------------------------------------------------------- what somebody else left out


# A graph with something of each kind, and which fusions find something in it.
VAE_NAME = "torch-2.13/sd15-thin-vae_decoder-torchscript-17-static"
TEXT_NAME = "torch-2.13/sd15-thin-text_encoder-dynamo-18-static"
OTHER_TEXT_NAME = "torch-2.13/sdxl-thin-text_encoder_2-dynamo-18-static"


def left_of(model):
    return {
        optimization: one.left
        for optimization, one in standing(analyze(model, OPTIMIZATIONS), OPTIMIZATIONS).items()
        if one.left
    }


@pytest.mark.parametrize("name", [*KNOWN, "torch-2.13/sd15-thin-unet-dynamo-23-static"])
def test_nothing_is_left_where_everything_was_fused(name):
    assert left_of(fused(name)) == {}


@pytest.mark.parametrize(
    ("name", "without", "left"),
    [
        (UNET_NAME, "SkipLayerNormalization", {"fp16": {"LayerNormalization": 32}}),
        (UNET_NAME, "Attention", {"fmha": {"Softmax": 32}, "packed-qkv": {"Softmax": 32}}),
        (UNET_NAME, "NhwcConv", {"nhwc-conv": {"Conv": 98}}),
        (UNET_NAME, "GroupNorm", {"group-norm": {"InstanceNormalization": 61}}),
        (UNET_NAME, "SkipGroupNorm", {"group-norm": {"GroupNorm": 45}}),
        (UNET_NAME, "BiasSplitGelu", {"bias-split-gelu": {"Gelu": 16}}),
        (UNET_NAME, "PackedQkv", {"packed-qkv": {"MultiHeadAttention": 32}}),
        (UNET_NAME, "BiasAdd", {"bias-add": {"Add": 16}}),
        (VAE_NAME, "SkipGroupNorm", {"group-norm": {"GroupNorm": 12}}),
        (VAE_NAME, "Attention", {"fmha": {"Softmax": 1}}),
        (TEXT_NAME, "QuickGelu", {"fp16": {"Sigmoid": 12}}),
        (OTHER_TEXT_NAME, "Gelu", {"fp16": {"Erf": 32}}),
        (OTHER_TEXT_NAME, "BiasGelu", {"fp16": {"Gelu": 32}}),
    ],
)
def test_each_fusion_that_was_left_out_is_seen_in_what_the_others_made(name, without, left):
    model = graph_zoo.load_structure(name)
    fuse(model, [fusion for fusion in FUSIONS if type(fusion).__name__ != without])
    assert left_of(model) == left


@pytest.mark.parametrize("how", loses)
@pytest.mark.parametrize(
    ("name", "left"),
    [(UNET_NAME, {"GroupNorm": 16, "SkipGroupNorm": 29}), (VAE_NAME, {"GroupNorm": 18, "SkipGroupNorm": 11})],
)
def test_norms_that_have_lost_their_silu_are_seen_and_expected_to_have_it(name, left, how):
    model = fused(name)
    whole = counts(model.clone())
    lose_silus(model, how)
    assert left_of(model.clone())["group-norm"] == left
    assert counts(model) == whole


def test_norms_whose_silu_is_not_theirs_alone_are_expected_to_have_it_too():
    model = fused(VAE_NAME)
    whole = counts(model.clone())
    lose_silus(model, "Sigmoid")
    norm = next(node for node in model.graph if node.op_type == "GroupNorm")
    model.graph.outputs.append(norm.outputs[0])
    assert counts(model.clone()) == whole
    assert [place.fused for place in analyze(model, OPTIMIZATIONS).places["group-norm"]].count(False) == 1


@pytest.mark.parametrize(("name", "cancel"), [(UNET_NAME, 214), (VAE_NAME, 71)])
def test_transposes_that_cancel_are_left_of_channels_last_convolutions(name, cancel, monkeypatch):
    model = graph_zoo.load_structure(name)
    with monkeypatch.context() as broken:
        broken.setattr(layout, "settle", lambda graph: None)
        fuse(model, FUSIONS)
    assert left_of(model) == {"nhwc-conv": {"Transpose": cancel}}


@pytest.mark.parametrize(
    ("name", "selection"),
    [
        *((VAE_NAME, selection) for selection in ("nhwc-conv", "group-norm", "all-fmha", "bias-add")),
        (UNET_NAME, "all-fmha"),
        (UNET_NAME, "bias-add"),
        (UNET_NAME.replace("18", "23"), "nhwc-conv"),
    ],
)
def test_a_structure_lets_as_many_transposes_be_as_the_fuser_leaves(name, selection, monkeypatch):
    optimizations = {
        optimization: OPTIMIZATIONS[optimization]
        for optimization in ladder.optimizations(selection, tuple(OPTIMIZATIONS))
    }
    most = budgets(analyze(graph_zoo.load_structure(name), optimizations))
    model = graph_zoo.load_structure(name)
    build(model, selection)
    assert counted(model)["::Transpose"] == most["::Transpose"]
    monkeypatch.setattr(layout, "settle", lambda graph: None)
    broken = graph_zoo.load_structure(name)
    build(broken, selection)
    assert counted(broken)["::Transpose"] > most["::Transpose"]


@pytest.mark.parametrize(
    ("name", "selection"), [(UNET_NAME, "fmha"), (UNET_NAME, "all-nhwc-conv"), (TEXT_NAME, "bias-add")]
)
def test_without_channels_last_convolutions_transposes_are_the_exporters(name, selection):
    optimizations = {
        optimization: OPTIMIZATIONS[optimization]
        for optimization in ladder.optimizations(selection, tuple(OPTIMIZATIONS))
    }
    assert budgets(analyze(graph_zoo.load_structure(name), optimizations)) == {}
