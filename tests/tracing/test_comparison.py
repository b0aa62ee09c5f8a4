"""A build beside its export: the node that was made wrong is named and no other; of a right build none is."""

from __future__ import annotations

import functools

import numpy as np
import onnx_ir as ir
import pytest
import rewriting

from pytest_sdperf.faults import known
from pytest_sdperf.faults.fault import FaultStage
from pytest_sdperf.fusing import tidy
from pytest_sdperf.fusing.fusion_graph import path_of
from pytest_sdperf.tracing.comparison import GraphComparison
from pytest_sdperf.tracing.held import held_by, rounded_constants
from pytest_sdperf.tracing.reference import pool_of_graphs
from pytest_sdperf.tracing.section import nodes_between

GRAPH = ("torch-2.13/sd15-thin-unet-dynamo-18-dynamic", "unet.down_blocks.0")
# Small: each place that is tried computes ten nodes.
SIZE = {"batch": 2, "latent_height": 8, "latent_width": 8}
# Fault -> type of the node that is named, and the last parts of its module path.
NAMED = {
    "graph-query-and-key-exchanged": ("MultiHeadAttention", "attn1"),
    "graph-key-and-value-exchanged": ("MultiHeadAttention", "attn2"),
    "graph-packed-by-projection": ("MultiHeadAttention", "attn1"),
    "graph-heads-rotated": ("MultiHeadAttention", "attn1"),
    "graph-projection-transposed": ("MatMul", "attn1.to_out.0"),
    "graph-bias-of-convolution-lost": ("NhwcConv", "proj_in"),
    "graph-padded-on-one-side": ("NhwcConv", "downsamplers.0.conv"),
    "graph-moved-bias-lost": ("SkipGroupNorm", "resnets.0.norm2"),
    "graph-number-of-groups-halved": ("SkipGroupNorm", "resnets.0.norm2"),
    "graph-activation-lost": ("SkipGroupNorm", "resnets.0.norm2"),
    "graph-activation-added": ("SkipGroupNorm", "attentions.0.norm"),
    "graph-bias-of-layer-norm-lost": ("SkipLayerNormalization", "norm2"),
    "graph-bias-of-geglu-negated": ("BiasSplitGelu", "ff.net.0"),
}
# The others are named near by. Rounding in every product is nowhere in particular.
NEAR = [
    fault.name
    for fault in known.FAULTS.values()
    if fault.place is FaultStage.GRAPH
    and fault.component == "unet"
    and fault.name not in (*NAMED, "numerics-products-in-ten-bits")
]
QUICK = ("graph-query-and-key-exchanged", "graph-moved-bias-lost", "graph-activation-lost", "graph-padded-on-one-side")


def cast(inputs):
    return {name: np.asarray(array, np.float32) if array.dtype.kind == "f" else array for name, array in inputs.items()}


@functools.cache
def scene(dtype):
    """The values of the graph that nothing was done to, its inputs, and what its halves were rounded from."""
    raw, plain = rewriting.load(*GRAPH), rewriting.load(*GRAPH)
    inputs = cast({name: np.asarray(array) for name, array in rewriting.draw_inputs(raw, SIZE).items()})
    if dtype == "float16":
        rewriting.fuse(plain, [], to_float16=True)
    tidy.unify(raw)
    build = fused(dtype).graph
    how = {"rounding": held_by(build).parameter, "dtype": dtype, "device": "cpu"}
    return pool_of_graphs(raw.graph, plain.graph, inputs, **how), inputs, rounded_constants(build, raw.graph)


@functools.cache
def fused(dtype):
    model = rewriting.load(*GRAPH)
    rewriting.build(model, rewriting.LAST, dtype=dtype)
    return model


def compared(dtype, fault=None):
    model = fused(dtype).clone()
    if fault is not None:
        fault(model)
    activations, inputs, constants = scene(dtype)
    return GraphComparison(model.graph, activations, inputs, constants=constants)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_right_build_has_nothing_wrong(dtype):
    comparison = compared(dtype)
    assert comparison.faults == []
    assert comparison.differing() == []
    assert len(comparison.agreeing) > 50


@pytest.mark.parametrize(
    "fault", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in NAMED]
)
def test_the_planted_node_is_named(fault):
    comparison = compared("float32", known.get(fault).change)
    node = comparison.faults[0].value.producer()
    op_type, path = NAMED[fault]
    assert node.op_type == op_type
    assert path_of(node).endswith(path)
    assert comparison.faults[0].should is not None
    assert len({one.value.producer() for one in comparison.faults}) == 1
    assert comparison.differing() == []


def changed(healthy, planted):
    """The nodes of a planted graph that are not those of the healthy one."""
    before = {node.outputs[0].name: node for node in healthy.graph}
    return [
        node
        for node in planted.graph
        if (twin := before.get(node.outputs[0].name)) is None
        or [value and value.name for value in node.inputs] != [value and value.name for value in twin.inputs]
        or [str(one) for one in node.attributes.values()] != [str(one) for one in twin.attributes.values()]
    ]


def neighbours(nodes):
    """Nodes, what they read from and what reads from them."""
    before = [value.producer() for node in nodes for value in node.inputs if value is not None]
    behind = [user for node in nodes for value in node.outputs for user in value.consumers()]
    return {*nodes, *before, *behind} - {None}


@pytest.mark.slow
@pytest.mark.parametrize("fault", NEAR)
def test_every_other_fault_of_the_catalogue_is_named_where_it_is(fault):
    """At most two nodes away: a weight that was packed has no counterpart, so what uses it is named."""
    planted = fused("float32").clone()
    known.get(fault).change(planted)
    activations, inputs, constants = scene("float32")
    comparison = GraphComparison(planted.graph, activations, inputs, constants=constants)
    near = neighbours(neighbours(changed(fused("float32"), planted)))
    # Of two exchanged biases the first changes nothing that has a counterpart until a norm behind it, which is named.
    first = 1 if fault == "graph-biases-exchanged" else 0
    assert comparison.faults[first].value.producer() in near


@pytest.mark.parametrize(
    "fault", ["graph-query-and-key-exchanged", "graph-activation-lost", "graph-bias-of-geglu-negated"]
)
def test_in_halves_too(fault):
    comparison = compared("float16", known.get(fault).change)
    assert comparison.faults[0].value.producer().op_type == NAMED[fault][0]


def test_what_lies_between_values_with_a_counterpart_is_a_section():
    comparison = compared("float32", known.get("graph-query-and-key-exchanged").change)
    value = comparison.faults[0].value
    nodes = nodes_between(value, {one for one in comparison.agreeing if one is not value})
    assert [node.op_type for node in nodes] == ["MatMul", "Reshape", "MultiHeadAttention"]


# ------------------------------------------------------------------------------ what the rounding before it hides


def without_offset(model, node):
    offset = node.inputs[2]
    zeros = ir.tensor(np.zeros_like(offset.const_value.numpy()), name=f"{offset.name}.zero")
    value = ir.Value(name=zeros.name, type=offset.type, shape=offset.shape, const_value=zeros)
    model.graph.register_initializer(value)
    node.replace_input_with(2, value)


def with_another_epsilon(model, node):
    node.attributes["epsilon"] = ir.AttrFloat32("epsilon", 3e-2)


def scaled_otherwise(model, node):
    """By the square root of 2, as where a scale is applied once and should be twice."""
    # Packed, (N, rows, heads, 3, size), or a query of (N, rows, heads * size).
    shape, heads = node.inputs[0].shape, node.attributes["num_heads"].as_int()
    size = shape[-1] if len(shape) == 5 else shape[-1] // heads
    node.attributes["scale"] = ir.AttrFloat32("scale", (2 / size) ** 0.5)


# What is done -> the operators that it is done to.
HIDDEN = {
    without_offset: ("GroupNorm", "SkipGroupNorm"),
    with_another_epsilon: ("GroupNorm", "SkipGroupNorm"),
    scaled_otherwise: ("MultiHeadAttention",),
}


@pytest.mark.parametrize("change", HIDDEN, ids=lambda change: change.__name__)
def test_each_node_that_is_wrong_in_halves_is_named(change):
    activations, inputs, constants = scene("float16")
    places = [node.outputs[0].name for node in fused("float16").graph if node.op_type in HIDDEN[change]]
    assert len(places) > 2
    for name in places:
        model = fused("float16").clone()
        change(model, next(node for node in model.graph if node.outputs[0].name == name))
        comparison = GraphComparison(model.graph, activations, inputs, constants=constants)
        assert comparison.faults, name
        planted = [node for node in model.graph if node.outputs[0].name == name]
        first = min(comparison.faults, key=lambda one: comparison.place_of(one.value))
        # What an attention gives has no counterpart before its projection.
        assert first.value.producer() in neighbours(planted), name
