"""Definitions of ops that have no CPU kernel, against torch."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from one_op import assert_agrees, draw, error_units, execute, lowered, one_op, wide
from torch.nn import functional

from pytest_sdperf.fusing.lowering import lower

FEW = settings(max_examples=20, derandomize=True)
TYPES = st.sampled_from([np.float32, np.float16])
WAYS = st.fixed_dictionaries(
    {
        "knowledge": st.sampled_from(["static", "dynamic", "unknown"]),
        "opset": st.sampled_from([17, 18, 20]),
        "optimized": st.booleans(),
    }
)
EPSILON = 1e-5


# ---------------------------------------------------------------------------------- independent definitions in torch


def torch_group_norm(x, gamma, beta, *, groups, activation=0, epsilon=EPSILON, **_):
    y = functional.group_norm(x.permute(0, 3, 1, 2), groups, wide(gamma), wide(beta), eps=epsilon)
    return (functional.silu(y) if activation else y).permute(0, 2, 3, 1)


def torch_conv(x, weights, bias, *, pads=(0, 0, 0, 0), strides=(1, 1), dilations=(1, 1), group=1):
    top, left, bottom, right = pads
    images = functional.pad(wide(x).permute(0, 3, 1, 2), (left, right, top, bottom))
    filters = wide(weights).permute(0, 3, 1, 2)
    offset = None if bias is None else wide(bias)
    y = functional.conv2d(images, filters, offset, stride=strides, dilation=dilations, groups=group)
    return y.permute(0, 2, 3, 1)


def torch_attention(query, key, value, *, heads, causal=False, scale=None, bias=None):
    query, key, value = (x.unflatten(-1, (heads, -1)).transpose(1, 2) for x in (query, key, value))
    y = functional.scaled_dot_product_attention(query, key, value, attn_mask=bias, is_causal=causal, scale=scale)
    return y.transpose(1, 2).flatten(2)


# ------------------------------------------------------------------------------------------------------------- norms


@st.composite
def norms(draw_from):
    groups = draw_from(st.sampled_from([1, 2, 3, 8]))
    channels = groups * draw_from(st.integers(1, 5))
    sizes = [draw_from(st.integers(1, 9)) for _ in range(2)]
    x = draw(draw_from(st.integers(1, 3)), *sizes, channels, dtype=draw_from(TYPES), offset=0.5)
    if sizes == [1, 1] and channels == groups:
        x = x.repeat(2, axis=1)  # torch refuses to normalise a single value
    inputs = {"X": x, "gamma": draw(channels, seed=1), "beta": draw(channels, seed=2)}
    attributes = {
        "groups": groups,
        "activation": draw_from(st.integers(0, 1)),
        "epsilon": draw_from(st.sampled_from([1e-6, EPSILON, 1e-2])),
    }
    return inputs, attributes


@FEW
@given(norms(), WAYS)
def test_group_norm(drawn, ways):
    inputs, attributes = drawn
    (obtained,) = lowered(
        "GroupNorm",
        inputs,
        attributes={**attributes, "channels_last": 1},
        weights=("gamma", "beta"),
        **ways,
    )
    expected = torch_group_norm(wide(inputs["X"]), inputs["gamma"], inputs["beta"], **attributes)
    assert_agrees(obtained, expected, dtype=inputs["X"].dtype.type)


@FEW
@given(norms(), st.sampled_from(["NHWC", "N11C", "NC"]), st.booleans(), WAYS)
def test_skip_group_norm(drawn, form, with_bias, ways):
    inputs, attributes = drawn
    x = inputs["X"]
    batch, _, _, channels = x.shape
    shape = {"NHWC": x.shape, "N11C": (batch, 1, 1, channels), "NC": (batch, channels)}[form]
    skip = draw(*shape, dtype=x.dtype, seed=3)
    bias = draw(channels, dtype=x.dtype, seed=4) if with_bias else None
    total = wide(x) + wide(skip.reshape(shape if form == "NHWC" else (batch, 1, 1, channels)))
    total = total if bias is None else total + wide(bias)
    obtained, added = lowered(
        "SkipGroupNorm",
        {**inputs, "skip": skip, "bias": bias},
        attributes=attributes,
        outputs=("Y", "S"),
        weights=("gamma", "beta", "bias"),
        **ways,
    )
    assert_agrees(added, total, dtype=x.dtype.type)
    # What is normalised is the sum as it is handed on, rounded to its type.
    expected = torch_group_norm(wide(added), inputs["gamma"], inputs["beta"], **attributes)
    assert_agrees(obtained, expected, dtype=x.dtype.type)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("epsilon", [1e-6, 1e-5, 1e-3])
def test_group_norm_where_the_variance_is_as_small_as_epsilon(dtype, epsilon):
    inputs = {"X": draw(2, 8, 8, 12, dtype=dtype, scale=3e-3), "gamma": draw(12, seed=1), "beta": draw(12)}
    (obtained,) = lowered("GroupNorm", inputs, attributes={"groups": 3, "activation": 0, "epsilon": epsilon})
    expected = torch_group_norm(wide(inputs["X"]), inputs["gamma"], inputs["beta"], groups=3, epsilon=epsilon)
    assert_agrees(obtained, expected, dtype=dtype)


def test_epsilon_is_1e_5_where_a_node_does_not_say_it():
    inputs = {"X": draw(2, 8, 8, 12, scale=3e-3), "gamma": draw(12, seed=1), "beta": draw(12)}
    (obtained,) = lowered("GroupNorm", inputs, attributes={"groups": 3, "activation": 0})
    assert_agrees(
        obtained,
        torch_group_norm(wide(inputs["X"]), inputs["gamma"], inputs["beta"], groups=3),
        dtype=np.float32,
    )


def test_group_norm_of_a_constant_image_is_beta():
    inputs = {"X": np.full((1, 4, 4, 8), 0.1, np.float32), "gamma": draw(8, seed=1), "beta": draw(8)}
    (obtained,) = lowered("GroupNorm", inputs, attributes={"groups": 4, "activation": 0})
    assert error_units(obtained, wide(np.broadcast_to(inputs["beta"], (1, 4, 4, 8)))) < 1e2


def test_group_norm_in_float16_does_not_overflow_where_squares_do():
    x = draw(1, 8, 8, 8, dtype=np.float16, scale=1000.0)
    inputs = {"X": x, "gamma": draw(8, seed=1), "beta": draw(8)}
    (obtained,) = lowered("GroupNorm", inputs, attributes={"groups": 2, "activation": 1})
    expected = torch_group_norm(wide(x), inputs["gamma"], inputs["beta"], groups=2, activation=1)
    assert_agrees(obtained, expected, dtype=np.float16)


def test_group_norm_of_a_large_image_keeps_its_digits():
    inputs = {"X": draw(1, 96, 96, 16, offset=2.0), "gamma": np.ones(16, np.float32), "beta": np.zeros(16, np.float32)}
    (obtained,) = lowered("GroupNorm", inputs, attributes={"groups": 2, "activation": 0})
    expected = torch_group_norm(wide(inputs["X"]), inputs["gamma"], inputs["beta"], groups=2)
    assert_agrees(obtained, expected, dtype=np.float32)


# ------------------------------------------------------------------------------------------------------- convolution


@st.composite
def convolutions(draw_from):
    group = draw_from(st.sampled_from([1, 2, 3]))
    kernel = [draw_from(st.integers(1, 3)) for _ in range(2)]
    attributes = {
        "group": group,
        "pads": [draw_from(st.integers(0, 2)) for _ in range(4)],
        "strides": [draw_from(st.integers(1, 2)) for _ in range(2)],
        "dilations": [draw_from(st.integers(1, 2)) for _ in range(2)],
    }
    sizes = [draw_from(st.integers(5, 9)) for _ in range(2)]
    per_group, dtype = draw_from(st.integers(1, 4)), draw_from(TYPES)
    outputs = group * draw_from(st.integers(1, 3))
    x = draw(draw_from(st.integers(1, 3)), *sizes, group * per_group, dtype=dtype)
    bias = draw(outputs, dtype=dtype, seed=2) if draw_from(st.booleans()) else None
    return {"X": x, "W": draw(outputs, *kernel, per_group, dtype=dtype, seed=1), "B": bias}, attributes


@FEW
@given(convolutions(), WAYS)
def test_nhwc_conv(drawn, ways):
    inputs, attributes = drawn
    (obtained,) = lowered("NhwcConv", inputs, attributes=attributes, **ways, weights=("W", "B"))
    expected = torch_conv(*inputs.values(), **attributes)
    assert_agrees(obtained, expected, dtype=inputs["X"].dtype.type)


def test_nhwc_conv_without_attributes():
    inputs = {"X": draw(2, 5, 6, 3), "W": draw(4, 3, 2, 3, seed=1)}
    (obtained,) = lowered("NhwcConv", inputs)
    assert_agrees(obtained, torch_conv(inputs["X"], inputs["W"], None), dtype=np.float32)


@pytest.mark.parametrize(("auto_pad", "pads"), [("VALID", (0, 0, 0, 0)), ("SAME_UPPER", (0, 1, 1, 1))])
def test_nhwc_conv_pads_by_itself_as_it_is_told(auto_pad, pads):
    inputs = {"X": draw(2, 5, 6, 3), "W": draw(4, 2, 3, 3, seed=1), "B": draw(4, seed=2)}
    (obtained,) = lowered("NhwcConv", inputs, attributes={"auto_pad": auto_pad, "kernel_shape": [2, 3]})
    assert_agrees(obtained, torch_conv(*inputs.values(), pads=pads), dtype=np.float32)


# ---------------------------------------------------------------------------------------------- Gelu and the residual


@FEW
@given(st.tuples(st.integers(1, 3), st.integers(1, 9), st.integers(1, 12)), TYPES, WAYS)
def test_bias_split_gelu(sizes, dtype, ways):
    batch, length, half = sizes
    inputs = {
        "X": draw(batch, length, 2 * half, dtype=dtype, scale=2.0),
        "bias": draw(2 * half, dtype=dtype, seed=1),
    }
    (obtained,) = lowered("BiasSplitGelu", inputs, **ways, weights=("bias",))
    added = wide(inputs["X"] + inputs["bias"])  # the kernel adds in the type of its inputs
    left, right = added.chunk(2, dim=-1)
    # Of a large negative number, Gelu is what remains of 1 + erf.
    assert_agrees(obtained, left * functional.gelu(right), dtype=dtype, terms=left * right)


def test_gelu_is_the_exact_one():
    """Where the curve bends most, so that neither the tanh form nor a short square root of 2 passes."""
    right = np.linspace(0.5, 2.0, 64, dtype=np.float32)
    inputs = {"X": np.concatenate([np.ones_like(right), right])[None, None], "bias": np.zeros(128, np.float32)}
    (obtained,) = lowered("BiasSplitGelu", inputs)
    assert_agrees(obtained, functional.gelu(wide(right))[None, None], dtype=np.float32)


@FEW
@given(st.tuples(st.integers(1, 3), st.integers(1, 9), st.integers(1, 12)), TYPES, WAYS)
def test_bias_add(sizes, dtype, ways):
    batch, length, channels = sizes
    inputs = {
        "X": draw(batch, length, channels, dtype=dtype),
        "bias": draw(channels, dtype=dtype, seed=1),
        "skip": draw(batch, length, channels, dtype=dtype, seed=2),
    }
    (obtained,) = lowered("BiasAdd", inputs, **ways, weights=("bias",))
    assert_agrees(obtained, wide(inputs["X"]) + wide(inputs["bias"]) + wide(inputs["skip"]), dtype=dtype)


# --------------------------------------------------------------------------------------------------------- attention


@st.composite
def attentions(draw_from):
    heads, head = draw_from(st.integers(1, 4)), draw_from(st.sampled_from([4, 8, 10]))
    batch, length, other = (draw_from(st.integers(1, n)) for n in (3, 9, 9))
    scale = draw_from(st.sampled_from([None, 0.3, 1.0]))
    attributes = {"num_heads": heads, **({} if scale is None else {"scale": scale})}
    return (batch, length, other, heads, head), scale, attributes, draw_from(TYPES)


@FEW
@given(attentions(), st.booleans(), WAYS)
def test_attention_with_packed_query_key_and_value(drawn, causal, ways):
    (batch, length, _, heads, head), scale, attributes, dtype = drawn
    packed = draw(batch, length, heads, 3, head, dtype=dtype)
    (obtained,) = lowered(
        "MultiHeadAttention",
        {"query": packed},
        attributes={**attributes, "unidirectional": int(causal)},
        **ways,
    )
    parts = (wide(packed[:, :, :, i].reshape(batch, length, -1)) for i in range(3))
    assert_agrees(obtained, torch_attention(*parts, heads=heads, causal=causal, scale=scale), dtype=dtype)


@FEW
@given(attentions(), st.booleans(), WAYS)
def test_attention_with_packed_key_and_value(drawn, with_bias, ways):
    (batch, length, other, heads, head), scale, attributes, dtype = drawn
    query = draw(batch, length, heads * head, dtype=dtype)
    packed = draw(batch, other, heads, 2, head, dtype=dtype, seed=1)
    inputs = {"query": query, "key": packed}
    bias = draw(1, 1, length, other, dtype=dtype, seed=2) if with_bias else None
    if with_bias:
        inputs |= {"value": None, "bias": None, "key_padding_mask": None, "attention_bias": bias}
    (obtained,) = lowered("MultiHeadAttention", inputs, attributes=attributes, **ways)
    parts = (wide(query), *(wide(packed[:, :, :, i].reshape(batch, other, -1)) for i in range(2)))
    mask = None if bias is None else wide(bias)
    assert_agrees(obtained, torch_attention(*parts, heads=heads, scale=scale, bias=mask), dtype=dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_attention_with_packed_inputs_keeps_its_bias_and_its_mask(dtype):
    packed, bias = draw(2, 5, 2, 3, 8, dtype=dtype), draw(48, dtype=dtype, seed=1)
    mask = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], np.int32)
    inputs = {"query": packed, "key": None, "value": None, "bias": bias, "key_padding_mask": mask}
    (obtained,) = lowered("MultiHeadAttention", inputs, attributes={"num_heads": 2, "mask_filter_value": -1e4})
    parts = (wide(packed[:, :, :, i].reshape(2, 5, 16)) + wide(bias[16 * i : 16 * i + 16]) for i in range(3))
    hidden = -1e4 * (1 - wide(mask))[:, None, None]
    assert_agrees(obtained, torch_attention(*parts, heads=2, bias=hidden), dtype=dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_attention_with_three_inputs_stays_and_runs(dtype):
    inputs = {name: draw(2, 5, 16, dtype=dtype, seed=i) for i, name in enumerate(("query", "key", "value"))}
    model = one_op("MultiHeadAttention", inputs, attributes={"num_heads": 2, "unidirectional": 1})
    before = ir.to_proto(model).SerializeToString()
    assert lower(model) == Counter()
    assert ir.to_proto(model).SerializeToString() == before
    (obtained,) = execute(model, inputs)
    expected = torch_attention(*(wide(array) for array in inputs.values()), heads=2, causal=True)
    assert_agrees(obtained, expected, dtype=dtype)
