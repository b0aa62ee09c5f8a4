"""Operators that stay float32 in a float16 build: SD2.1's products of query and key do not fit float16."""

from __future__ import annotations

import exact
import numpy as np
import onnx_ir as ir
import pytest
import rewriting
import torch

from pytest_sdperf.fusing.fusion_graph import MICROSOFT, path_of
from pytest_sdperf.fusing.native import fuse
from pytest_sdperf.tracing.definitions import DEFINITIONS

NAME = "torch-2.13/sd21-thin-unet-dynamo-18-static"
PATH = "unet.down_blocks.0.attentions.0"
ATTENTION = "MultiHeadAttention"
FLOAT, HALF = ir.DataType.FLOAT, ir.DataType.FLOAT16
# Weights of the thin twin are drawn to fit; times this, products of query and key are beyond 65504.
FACTOR = 400.0


def overflowing():
    """The beginning of SD2.1's UNet, with query and key as large as some of the released weights make them."""
    model = rewriting.load(NAME, PATH)
    for node in model.graph:
        if path_of(node).endswith(("to_q", "to_k")):
            (weight,) = (value for value in node.inputs if value is not None and value.is_initializer())
            weight.const_value = ir.tensor(weight.const_value.numpy() * np.float32(FACTOR), name=weight.name)
    return model


def build(optimization, *float32_ops):
    """The same in float16, fused by one optimization alone."""
    model = overflowing()
    fuse(model, rewriting.OPTIMIZATIONS[optimization].fusions(), to_float16=True, float32_ops=float32_ops)
    return model


def attention(kept):
    """Attention as a kernel computes it that keeps its products in its own type."""

    def attend(query, key, value, *, num_heads, scale=None):
        q, k, v = (x.unflatten(-1, (num_heads, -1)).transpose(1, 2) for x in (query, key, value))
        products = q @ k.transpose(2, 3) * (scale or q.shape[-1] ** -0.5)
        products = products if kept else products.half().double()
        return (torch.softmax(products, -1) @ v).transpose(1, 2).flatten(2)

    return attend


def evaluate(model, inputs, monkeypatch):
    nodes = [node for node in model.graph if node.op_type == ATTENTION]
    kept = all(node.outputs[0].dtype == FLOAT for node in nodes)
    monkeypatch.setitem(DEFINITIONS, ATTENTION, attention(kept=kept))
    for node in nodes:
        assert node.domain == MICROSOFT
        node.domain = ""
    return exact.evaluate(model, inputs, rounded=True)


@pytest.fixture(scope="module")
def expected():
    model = overflowing()
    inputs = rewriting.draw_inputs(model, {})
    return inputs, exact.evaluate(model, inputs)


@pytest.fixture(scope="module")
def tolerance(expected):
    """What float16 costs the plain graph where no product overflows, times what an optimized build may cost."""
    inputs, outputs = expected
    plain = build("fp32", "MatMul", "Softmax")
    return rewriting.ALLOWED * rewriting.error(exact.evaluate(plain, inputs, rounded=True), outputs)


def test_attention_in_float16_overflows_and_in_float32_agrees(expected, tolerance, monkeypatch):
    inputs, outputs = expected
    (broken,) = evaluate(build("fmha"), inputs, monkeypatch)
    assert np.isnan(broken).any()
    kept = evaluate(build("fmha", ATTENTION), inputs, monkeypatch)
    assert rewriting.error(kept, outputs) < tolerance


def test_unfused_products_overflow_too_and_can_be_kept(expected):
    inputs, _ = expected
    (broken,) = exact.evaluate(build("fp32"), inputs, rounded=True)
    assert np.isnan(broken).any()
    (kept,) = exact.evaluate(build("fp32", "MatMul", "Softmax"), inputs, rounded=True)
    assert np.isfinite(kept).all()


def types(model, op_type):
    nodes = [node for node in model.graph if node.op_type == op_type]
    return {value.dtype for node in nodes for value in (*node.inputs, *node.outputs) if value is not None}


def test_attention_alone_is_float32():
    plain, kept = build("fmha"), build("fmha", ATTENTION)
    assert (types(plain, ATTENTION), types(kept, ATTENTION)) == ({HALF}, {FLOAT})
    assert (types(plain, "MatMul"), types(kept, "MatMul")) == ({HALF}, {HALF})
    # Two attentions with three inputs and an output each.
    assert rewriting.counts(kept) - rewriting.counts(plain) == {"Cast": 8}


@pytest.mark.parametrize("selection", ["packed-qkv", "bias-add"])
def test_packed_attention_is_kept_too(selection):
    model = overflowing()
    fuse(model, rewriting.fusions_of(selection)[1], to_float16=True, float32_ops=[ATTENTION])
    assert types(model, ATTENTION) == {FLOAT}
    inputs = rewriting.draw_inputs(model, {})
    assert np.isfinite(rewriting.run(model, inputs)[0]).all()


def test_what_a_graph_does_not_hold_changes_nothing():
    assert rewriting.counts(build("fp16", ATTENTION)) == rewriting.counts(build("fp16"))
