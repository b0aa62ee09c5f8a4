"""The fuser on every graph of the zoo: how often each fusion fires, what is left, and what the result computes."""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

import graph_zoo
import onnx
import onnx_ir as ir
import pytest
import rewriting
from rewriting import LAST, OPTIMIZATIONS, SIZES, build, counts, reference, tolerance
from zoo_targets import budgets, counted, expected

from pytest_sdperf.fusing import layout
from pytest_sdperf.fusing.explain import explain
from pytest_sdperf.fusing.layout import NCHW_TO_NHWC, NHWC_TO_NCHW, is_transpose
from pytest_sdperf.fusing.record import Site
from pytest_sdperf.fusing.weightless import is_weightless

NAMES = graph_zoo.NAMES
UNET = "torch-2.13/sd15-thin-unet-dynamo-18"


def attention(layers, activation):
    """A text encoder: per layer one attention, one activation and two norms that take in the sum before them."""
    return {
        "MultiHeadAttention": layers, "SkipLayerNormalization": 2 * layers, "LayerNormalization": 1, activation: layers,
    }  # fmt: skip


def unet(attentions, norms, geglus, adds, convs):
    names = ("GroupNorm", "SkipGroupNorm", "LayerNormalization", "SkipLayerNormalization")
    fused = {"MultiHeadAttention": attentions, "BiasSplitGelu": geglus, "BiasAdd": adds, "NhwcConv": convs}
    return {**dict(zip(names, norms, strict=True)), **fused}


# At the last optimization. Adds are the residual sums of feed-forwards that no norm takes in: one per transformer.
KNOWN = {
    "sd15-thin-unet": unet(32, (16, 45, 16, 32), 16, 16, 98),
    "sd21-thin-unet": unet(32, (16, 45, 16, 32), 16, 16, 66),
    "sdxl-thin-unet": unet(140, (12, 34, 11, 199), 70, 11, 51),
    "sdxl-refiner-thin-unet": unet(88, (16, 40, 11, 121), 44, 11, 66),
    "sd15-thin-vae_decoder": {"NhwcConv": 36, "GroupNorm": 18, "SkipGroupNorm": 12, "MultiHeadAttention": 1},
    "sd15-thin-vae_encoder": {"NhwcConv": 28, "GroupNorm": 14, "SkipGroupNorm": 8, "MultiHeadAttention": 1},
    "sd15-thin-text_encoder": attention(12, "QuickGelu"),
    "sd21-thin-text_encoder": attention(23, "BiasGelu"),
    "sdxl-thin-text_encoder_2": attention(32, "BiasGelu"),
}
FUSED = sorted({name for known in KNOWN.values() for name in known} | {"Gelu"})
# What the fusions leave nothing of.
GONE = (
    "Softmax", "InstanceNormalization", "GroupNormalization", "Attention", "Erf", "Conv", "IsNaN", "Identity",
)  # fmt: skip


def family(name):
    return re.search(r"/(.*-thin-[a-z_0-9]+)-", name).group(1)


class Fused(NamedTuple):
    """A fused graph without weights, what was looked at, and how inputs, outputs and modules were before."""

    model: ir.Model
    sites: list[Site]
    interface: dict
    modules: set


def interface(model):
    sides = {"inputs": model.graph.inputs, "outputs": model.graph.outputs}
    return {side: [(value.name, str(value.shape)) for value in values] for side, values in sides.items()}


@functools.cache
def fused(name, selection=LAST):
    model = graph_zoo.load_structure(name)
    before = interface(model), {rewriting.path_of(node) for node in model.graph}
    return Fused(model, build(model, selection), *before)


def fused_counts(model):
    found = counts(model)
    wanted = {name: found[f"com.microsoft::{name}"] or found[name] for name in FUSED}
    return {name: count for name, count in wanted.items() if count}


# ------------------------------------------------------------------------------------------------- what is there


@pytest.mark.parametrize("name", NAMES)
def test_every_graph_reaches_its_counts(name):
    model = fused(name).model
    assert fused_counts(model) == KNOWN[family(name)]
    assert not any(counts(model)[left] for left in GONE)


@pytest.mark.parametrize("name", NAMES)
def test_every_graph_reaches_what_its_module_allows(name):
    target, places = expected(name, LAST)
    model, sites, *_ = fused(name)
    reached = counted(model)
    assert {op: reached[op] for op in target} == target
    assert explain(places, sites, reached).unfused == ()


# Optimizations that find nothing in a component add nothing.
MATTERS = {
    "text_encoder": ("fp32", "fp16", "fmha", LAST),
    "vae_decoder": ("fp32", "fmha", "nhwc-conv", "group-norm", LAST),
    "unet": tuple(OPTIMIZATIONS),
}


@pytest.mark.parametrize(
    ("component", "selection"),
    [
        (component, selection)
        for component, optimizations in MATTERS.items()
        for name in optimizations
        for selection in (name, f"all-{name}")
    ],
)
def test_every_optimization_and_every_optimization_left_out_reaches_what_its_module_allows(component, selection):
    name = f"{UNET}-static".replace("unet", component)
    target, _ = expected(name, selection)
    reached = counted(fused(name, selection).model)
    assert {op: reached[op] for op in target} == target


@pytest.mark.parametrize("name", [name for name in NAMES if "unet" in name])
def test_attention_of_a_unet_is_packed(name):
    model = fused(name).model
    inputs = [
        sum(value is not None for value in node.inputs) for node in model.graph if node.op_type == "MultiHeadAttention"
    ]
    half = KNOWN[family(name)]["MultiHeadAttention"] // 2
    assert (inputs.count(1), inputs.count(2), len(inputs)) == (half, half, 2 * half)


# As optimum leaves them open: channels, tokens and the number of timesteps too.
OPENED = {
    "torch-2.13/sd15-thin-unet-torchscript-17-dynamic": (
        ["batch", "channels", "height", "width"],
        ["steps"],
        ["batch", "tokens", 96],
    ),
    "torch-2.13/sd15-thin-vae_decoder-dynamo-18-dynamic": (["batch", "channels", "height", "width"],),
}


@pytest.mark.parametrize("name", OPENED)
def test_sizes_that_others_leave_open(name):
    model = graph_zoo.load_structure(name)
    for node in model.graph:
        for value in node.outputs:
            value.shape = None
    for value, shape in zip(model.graph.inputs, OPENED[name], strict=True):
        value.shape = ir.Shape(shape)
    build(model, LAST)
    assert fused_counts(model) == KNOWN[family(name)]


# Optimization by optimization what is added to the counts, and what a fusion takes in of an earlier one.
STEPS = {
    "fp32": {},
    "fp16": {"SkipLayerNormalization": 32, "Gelu": 16},
    "fmha": {"MultiHeadAttention": 32},
    "nhwc-conv": {"NhwcConv": 98},
    "group-norm": {"GroupNorm": 16, "SkipGroupNorm": 45},
    "bias-split-gelu": {"BiasSplitGelu": 16, "Gelu": -16},
    "packed-qkv": {},
    "bias-add": {"BiasAdd": 16},
}
PLAIN = {"LayerNormalization": 48}


def microsoft(model):
    return {name.partition("::")[2]: count for name, count in counts(model).items() if "::" in name}


@pytest.mark.parametrize("shapes", ["static", "dynamic"])
@pytest.mark.parametrize("optimization", STEPS)
def test_every_optimization_adds_its_own_to_those_below(optimization, shapes):
    expected = {}
    for name, added in STEPS.items():
        for op, count in added.items():
            expected[op] = expected.get(op, 0) + count
        if name == optimization:
            break
    model = fused(f"{UNET}-{shapes}", optimization).model
    assert microsoft(model) == {op: count for op, count in expected.items() if count}


WITHOUT_LAYERS = {"LayerNormalization": 48, "Gelu": 0, "SkipLayerNormalization": 0}
ALL = {"MultiHeadAttention": 32, **KNOWN["sd15-thin-unet"], "Gelu": 0}
SELECTIONS = {
    "fp16+group-norm": {"SkipLayerNormalization": 32, "Gelu": 16, "GroupNorm": 16, "SkipGroupNorm": 45},
    "fp32+group-norm": {"GroupNorm": 16, "SkipGroupNorm": 45},
    "fp16+packed-qkv": {"SkipLayerNormalization": 32, "Gelu": 16},
    "fp16+bias-add": {"SkipLayerNormalization": 32, "Gelu": 16, "BiasAdd": 16},
    "fmha+nhwc-conv": {"MultiHeadAttention": 32, "NhwcConv": 98},
    "all-fp16": {**ALL, **WITHOUT_LAYERS},
    "all-fmha": {**ALL, "MultiHeadAttention": 0},
    "all-nhwc-conv": {**ALL, "NhwcConv": 0},
    "all-group-norm": {**ALL, "GroupNorm": 0, "SkipGroupNorm": 0},
    "all-bias-split-gelu": {**ALL, "BiasSplitGelu": 0, "Gelu": 16},
    "all-packed-qkv": ALL,
    "all-bias-add": {**ALL, "BiasAdd": 0},
}


@pytest.mark.parametrize("selection", SELECTIONS)
def test_optimizations_are_composed_and_left_out_one_by_one(selection):
    model = fused(f"{UNET}-static", selection).model
    expected = {op: count for op, count in SELECTIONS[selection].items() if count and op != "LayerNormalization"}
    assert microsoft(model) == expected
    halves = any(value.dtype == ir.DataType.FLOAT16 for value in model.graph.inputs)
    assert halves == ("fp16" in rewriting.fusions_of(selection)[0])


def test_every_optimization_has_its_step():
    assert list(STEPS) == list(OPTIMIZATIONS)
    assert {f"all-{name}" for name in OPTIMIZATIONS} - set(SELECTIONS) == {"all-fp32"}


# ----------------------------------------------------------------------------------------------- what is left


def timestep_casts(name):
    """A timestep and what tells the size of an image become float32 for their sinusoids, and these float16 again."""
    return {"sdxl-thin-unet": 4, "sdxl-refiner-thin-unet": 4}.get(family(name), 2 if "unet" in name else 0)


@pytest.mark.parametrize("name", NAMES)
def test_no_cast_is_left_but_those_of_sinusoids(name):
    model = fused(name).model
    casts = [node for node in model.graph if node.op_type == "Cast"]
    dtype = [node for node in casts if node.outputs[0].dtype.is_floating_point()]
    assert len(dtype) == timestep_casts(name)
    assert all(node.inputs[0].dtype != node.outputs[0].dtype for node in casts)
    # Tokens are searched for the last one in int32.
    assert len(casts) - len(dtype) == (1 if "text_encoder_2" in name else 0)


@pytest.mark.parametrize("name", NAMES)
def test_transposes_are_left_at_inputs_and_outputs_only(name):
    model, *_ = fused(name)
    transposes = [node for node in model.graph if node.op_type == "Transpose"]
    first = [node for node in transposes if is_transpose(node, NCHW_TO_NHWC)]
    last = [node for node in transposes if is_transpose(node, NHWC_TO_NCHW)]
    images = 0 if "text" in name else 1
    assert (len(first), len(last), len(transposes)) == (images, images, 2 * images)
    assert all(node.inputs[0].is_graph_input() for node in first)
    assert all(node.outputs[0].is_graph_output() for node in last)


WITH_IMAGES = ("unet", "vae_decoder", "vae_encoder")
LAYOUTS = ("nhwc-conv", "all-group-norm", "all-fmha", "all-fp16", "fmha+nhwc-conv", LAST)


@pytest.mark.parametrize("name", [name for name in NAMES if "text" not in name])
def test_no_graph_has_more_transposes_than_its_module_needs(name):
    assert counted(fused(name).model)["::Transpose"] <= budgets(name, LAST)["::Transpose"] == 2


@pytest.mark.parametrize("selection", LAYOUTS)
@pytest.mark.parametrize("component", WITH_IMAGES)
def test_every_selection_has_as_many_transposes_as_its_module_needs_at_most(component, selection):
    name = f"{UNET}-static".replace("unet", component)
    most = budgets(name, selection)["::Transpose"]
    left = counted(fused(name, selection).model)["::Transpose"]
    assert 0.7 * most <= left <= most


@pytest.mark.parametrize("selection", ["nhwc-conv", LAST])
@pytest.mark.parametrize("component", ["unet", "vae_decoder"])
def test_a_layout_in_which_nothing_cancels_has_too_many(component, selection, monkeypatch):
    monkeypatch.setattr(layout, "settle", lambda graph: None)
    name = f"{UNET}-static".replace("unet", component)
    model = graph_zoo.load_structure(name)
    build(model, selection)
    target, _ = expected(name, selection)
    reached = counted(model)
    assert {op: reached[op] for op in target} == target  # every operator is there
    assert reached["::Transpose"] > budgets(name, selection)["::Transpose"]


def test_without_channels_last_there_is_no_budget():
    for selection in ("fp32", "fmha", "all-nhwc-conv"):
        assert budgets(f"{UNET}-static", selection) == {}
    assert budgets("torch-2.13/sd15-thin-text_encoder-dynamo-18-static", LAST) == {}


# Exporters and opsets, each once; the other graphs take their turn in the slow tests.
VARIED = {
    f"{UNET}-dynamic",
    "torch-2.13/sd15-thin-unet-dynamo-23-static",
    "torch-2.13/sd15-thin-vae_decoder-torchscript-17-static",
    "torch-2.13/sd15-thin-text_encoder-dynamo-23-static",
    "torch-2.13/sd15-thin-text_encoder-torchscript-17-static",
    "torch-2.13/sdxl-thin-text_encoder_2-dynamo-18-static",
}


@pytest.mark.parametrize(
    ("name", "selection"),
    [
        pytest.param(name, selection, marks=[] if name in VARIED else [pytest.mark.slow])
        for name in NAMES
        for selection in (("fp32", LAST) if name in VARIED else (LAST,))
    ],
)
def test_the_model_is_valid_and_its_opset_has_kernels(name, selection):
    model = fused(name, selection).model
    assert 18 <= model.opset_imports[""] <= 20
    assert set(model.opset_imports) <= {"", "com.microsoft"}
    assert any(node.domain for node in model.graph) == (selection == LAST)
    proto = ir.to_proto(model)
    for tensor in [*proto.graph.initializer]:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            proto.graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
            proto.graph.initializer.remove(tensor)
    onnx.checker.check_model(proto, full_check=True)


@pytest.mark.parametrize("name", NAMES)
def test_names_are_unique_and_nothing_is_unused(name):
    model = fused(name).model
    names = [value.name for node in model.graph for value in node.outputs if value.name]
    names += [*model.graph.initializers, *(value.name for value in model.graph.inputs)]
    assert len(names) == len(set(names))
    assert all(value.uses() for value in model.graph.initializers.values())
    assert all(any(v.uses() or v.is_graph_output() for v in node.outputs) for node in model.graph)


@pytest.mark.parametrize("name", NAMES)
def test_the_interface_stays(name):
    model, _, before, _ = fused(name)
    assert interface(model) == before
    assert not any(value.dtype == ir.DataType.FLOAT for value in [*model.graph.inputs, *model.graph.outputs])


@pytest.mark.parametrize("name", [name for name in NAMES if "text" not in name])
def test_scales_and_offsets_of_group_norms_stay_float32(name):
    model = fused(name).model
    norms = [node for node in model.graph if node.op_type in ("GroupNorm", "SkipGroupNorm")]
    assert {value.dtype for node in norms for value in node.inputs[1:3]} == {ir.DataType.FLOAT}
    assert {value.dtype for node in norms for value in (*node.inputs[:1], *node.inputs[3:])} == {ir.DataType.FLOAT16}


@pytest.mark.parametrize("name", NAMES)
def test_every_fused_node_says_which_module_it_comes_from(name):
    model, sites, _, modules = fused(name)
    assert {site.path for site in sites} <= modules - {""}
    assert {rewriting.path_of(node) for node in model.graph if node.domain} <= modules - {""}
    norms = [rewriting.path_of(node) for node in model.graph if node.op_type in ("GroupNorm", "SkipGroupNorm")]
    assert all("norm" in path.rpartition(".")[2] for path in norms)


def test_weights_without_data_stay_without():
    model = fused(f"{UNET}-static").model
    assert is_weightless(model)


# -------------------------------------------------------------------------------------------- what it computes


# The module with which a part of a UNet ends that has one of everything but a skip connection and an upsampler.
FIRST = {"sdxl": "unet.down_blocks.1", "sd": "unet.down_blocks.0"}
# A graph, and the module up to which it is computed: what is quick at every optimization.
QUICK = (
    (f"{UNET}-dynamic", FIRST["sd"]),
    ("torch-2.13/sd15-thin-text_encoder-dynamo-18-dynamic", ""),
    ("torch-2.13/sd15-thin-vae_decoder-dynamo-18-dynamic", ""),
)
# What is quick at the last optimization.
QUICK_LAST = (
    ("torch-2.13/sd15-thin-vae_encoder-dynamo-18-static", "float32", 0),
    ("torch-2.13/sd15-thin-text_encoder-dynamo-23-static", "float32", 0),
    ("torch-2.13/sd15-thin-text_encoder-torchscript-17-static", "float32", 0),
    ("torch-2.13/sd15-thin-text_encoder-dynamo-18-static-float16", "float16", 0),
    ("torch-2.13/sd21-thin-text_encoder-dynamo-18-static", "float16", 0),
)
# Whole UNets, one of each exporter and of its newest opset; the others have the same blocks as their first.
WHOLE = {
    f"{UNET}-dynamic": ("float16", 1),
    "torch-2.13/sd15-thin-unet-dynamo-23-static": ("float32", 0),
    "torch-2.13/sd15-thin-unet-torchscript-17-dynamic": ("float32", 0),
}
# One graph of every family is compared in both types. The other exporters and opsets are compared in float32, where
# less rounding hides what is wrong, and in the narrowest family: what they write of a module is the same in all.
BOTH_TYPES = {family(name): name for name in sorted(NAMES, key=lambda name: ("dynamic" in name, "dynamo-18" in name))}


def slow_cases(name):
    """Return (path, type, optimization, size) of what is compared of a graph in the slow tests."""
    if name in WHOLE:
        dtype, size = WHOLE[name]
        return [("", dtype, LAST, size)]
    path = next(path for part, path in FIRST.items() if part in name) if "unet" in name else ""
    if name.endswith("float16"):
        return [(path, "float16", LAST, 0)]
    if name in BOTH_TYPES.values():
        return [(path, "float32", LAST, 0), (path, "float16", LAST, 0 if "static" in name else 1)]
    return [(path, "float32", LAST, 0)] if "sd15" in name else []


def agreement_cases():
    found = {}
    for name, path in QUICK:
        optimizations = next(optimizations for part, optimizations in MATTERS.items() if part in family(name))
        for optimization in optimizations:
            for dtype in ("float32", "float16")[: 1 if optimization == "fp32" else 2]:
                for size in range(2 if optimization == LAST else 1):
                    found[name, path, dtype, optimization, size] = True
    found.update({(name, "", dtype, LAST, size): True for name, dtype, size in QUICK_LAST})
    for name in NAMES:
        for path, dtype, optimization, size in slow_cases(name):
            found.setdefault((name, path, dtype, optimization, size), False)
    return [
        pytest.param(*one, marks=() if quick else pytest.mark.slow, id="-".join(map(str, one)).replace("/", "-"))
        for one, quick in sorted(found.items())
    ]


@pytest.mark.parametrize(("name", "path", "dtype", "optimization", "size"), agreement_cases())
def test_every_optimization_agrees_with_float64(name, path, dtype, optimization, size):
    inputs, expected = reference(name, size, path)
    obtained = rewriting.loaded(name, optimization, dtype, path)(inputs)
    assert rewriting.error(obtained, expected) <= tolerance(name, dtype, size, path)


def test_sizes_differ():
    first, second = SIZES
    assert not set(first.values()) & set(second.values())
    assert all(first[name] != second[name] for name in first)
