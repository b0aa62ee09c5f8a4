"""What a kernel refuses is refused with a whole sentence, and nothing else is."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from one_op import ADD, CONV, GELU, HEADS_SAY, KV, NORM, NORM_SAYS, QKV, SKIP_NORM, draw, one_op

from pytest_sdperf.core.errors import BuildError
from pytest_sdperf.fusing.contrib_forms import check, find_form


def checked(op_type, inputs, **how):
    node = one_op(op_type, inputs, **how).graph[-1]
    form = find_form(node)
    assert form is not None
    check(node, form)


def refusal(op_type, inputs, **how):
    with pytest.raises(BuildError) as caught:
        checked(op_type, inputs, **how)
    return str(caught.value)


@pytest.mark.parametrize(
    ("attributes", "text"),
    [
        ({**NORM_SAYS, "channels_last": 0}, "channels_last is 0; supported: 1 (N, H, W, C)"),
        ({**NORM_SAYS, "activation": 2}, "activation is 2; supported: 0 (none) or 1 (SiLU)"),
        ({**NORM_SAYS, "groups": 0}, "groups is 0; supported: 1 or more"),
        (
            {**NORM_SAYS, "swish": 1},
            "attribute 'swish' is unknown; supported: activation, channels_last, epsilon, groups",
        ),
        ({"groups": 4}, "attribute 'activation' is missing; required: activation, groups"),
    ],
)
def test_attributes_of_a_norm(attributes, text):
    for op_type, inputs in (("GroupNorm", NORM), ("SkipGroupNorm", SKIP_NORM)):
        assert refusal(op_type, inputs, attributes=attributes) == (
            f"the {op_type} node 'it' has a form that no kernel takes: {text}."
        )


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes", "text"),
    [
        ("NhwcConv", CONV, {"activation": 1}, "supported: auto_pad, dilations, group, kernel_shape, pads, strides"),
        ("BiasSplitGelu", GELU, {"activation": 1}, "supported: no attributes"),
        ("BiasAdd", ADD, {"activation": 1}, "supported: no attributes"),
        (
            "MultiHeadAttention",
            QKV,
            {**HEADS_SAY, "activation": 1},
            "supported: mask_filter_value, num_heads, scale, unidirectional",
        ),
    ],
)
def test_unknown_attributes(op_type, inputs, attributes, text):
    assert refusal(op_type, inputs, attributes=attributes) == (
        f"the {op_type} node 'it' has a form that no kernel takes: attribute 'activation' is unknown; {text}."
    )


@pytest.mark.parametrize("inputs", [QKV, KV])
def test_the_number_of_heads_is_required(inputs):
    assert refusal("MultiHeadAttention", inputs) == (
        "the MultiHeadAttention node 'it' has a form that no kernel takes: attribute 'num_heads' is missing; "
        "required: num_heads."
    )


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes", "text"),
    [
        ("GroupNorm", {**NORM, "beta": None}, NORM_SAYS, "input 'beta' is missing; required: X, gamma, beta"),
        ("SkipGroupNorm", NORM, NORM_SAYS, "input 'skip' is missing; required: X, gamma, beta, skip"),
        ("GroupNorm", SKIP_NORM, NORM_SAYS, "it has 5 inputs; supported: X, gamma, beta"),
        (
            "GroupNorm",
            {**NORM, "gamma": NORM["gamma"].astype(np.float16)},
            NORM_SAYS,
            "gamma is FLOAT16; supported: FLOAT",
        ),
        (
            "MultiHeadAttention",
            {**KV, "value": None, "bias": draw(48)},
            HEADS_SAY,
            "input 'bias' is there; supported: query, key, value, key_padding_mask, attention_bias",
        ),
        (
            "MultiHeadAttention",
            {**QKV, **dict.fromkeys("abcde"), "past_key": draw(2, 2, 4, 8)},
            HEADS_SAY,
            "it has 7 inputs; supported: query, key, value, bias, key_padding_mask, attention_bias",
        ),
        ("BiasAdd", GELU, {}, "input 'skip' is missing; required: X, bias, skip"),
    ],
)
def test_inputs(op_type, inputs, attributes, text):
    assert refusal(op_type, inputs, attributes=attributes) == (
        f"the {op_type} node 'it' has a form that no kernel takes: {text}."
    )


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes", "text"),
    [
        (
            "GroupNorm",
            {**NORM, "X": draw(1, 2, 4, 4, 8)},
            NORM_SAYS,
            "X [1,2,4,4,8], gamma [8], beta [8]; supported: X [N,H,W,C], gamma [C], beta [C]",
        ),
        (
            "GroupNorm",
            {**NORM, "X": draw(2, 8, 4, 4)},
            NORM_SAYS,
            "X [2,8,4,4], gamma [8], beta [8]; supported: X [N,H,W,C], gamma [C], beta [C]",
        ),
        (
            "SkipGroupNorm",
            {**SKIP_NORM, "skip": draw(1, 8)},
            NORM_SAYS,
            (
                "X [2,6,6,8], gamma [8], beta [8], skip [1,8], bias [8]; supported: X [N,H,W,C], gamma [C], beta [C], "
                "skip [N,H,W,C] or [N,1,1,C] or [N,C], bias [C]"
            ),
        ),
        (
            "NhwcConv",
            {"X": draw(1, 2, 4, 4, 8), "W": draw(8, 3, 3, 8)},
            {},
            "X [1,2,4,4,8], W [8,3,3,8]; supported: X [N,H,W,C], W [M,kH,kW,C/group]",
        ),
        (
            "BiasSplitGelu",
            {**GELU, "bias": draw(1)},
            {},
            "X [2,5,16], bias [1]; supported: X [B,S,D], bias [D]",
        ),
        (
            "BiasAdd",
            {**ADD, "skip": draw(1, 5, 8)},
            {},
            "X [2,5,8], bias [8], skip [1,5,8]; supported: X [B,S,C], bias [C], skip [B,S,C]",
        ),
        (
            "MultiHeadAttention",
            {"query": draw(2, 5, 2, 2, 8)},
            HEADS_SAY,
            "query [2,5,2,2,8] and num_heads is 2; supported: query [B,L,num_heads,3,H]",
        ),
        (
            "MultiHeadAttention",
            {**KV, "key": draw(2, 7, 2, 2, 8)},
            {"num_heads": 4},
            "query [2,5,16], key [2,7,2,2,8] and num_heads is 4; supported: query [B,S,D], key [B,L,num_heads,2,H]",
        ),
    ],
)
def test_shapes(op_type, inputs, attributes, text):
    assert refusal(op_type, inputs, attributes=attributes) == (
        f"the {op_type} node 'it' has a form that no kernel takes: the shapes are {text}."
    )


def test_sizes_that_are_open_or_unknown_fit_everything():
    for knowledge in ("dynamic", "unknown"):
        checked("SkipGroupNorm", {**SKIP_NORM, "skip": draw(1, 8)}, attributes=NORM_SAYS, knowledge=knowledge)


def test_a_node_without_a_name_is_called_by_its_output():
    node = one_op("BiasAdd", {**ADD, "skip": None}).graph[-1]
    node.name = None
    form = find_form(node)
    assert form is not None
    with pytest.raises(BuildError) as caught:
        check(node, form)
    assert str(caught.value) == (
        "the BiasAdd node 'Y' has a form that no kernel takes: input 'skip' is missing; required: X, bias, skip."
    )


@pytest.mark.parametrize(
    ("domain", "op_type", "inputs"),
    [
        ("", "Conv", 2),
        ("", "GroupNorm", 3),
        ("com.microsoft", "SkipLayerNormalization", 3),
        ("com.microsoft", "MultiHeadAttention", 3),
        ("com.microsoft", "MultiHeadAttention", 4),
    ],
)
def test_what_runs_on_a_cpu_has_no_form(domain, op_type, inputs):
    assert find_form(ir.node(op_type, [ir.val(str(index)) for index in range(inputs)], domain=domain)) is None
