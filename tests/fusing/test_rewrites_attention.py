"""Attentions as exporters write them, and as they might: fused where that is right, and right where it is not fused."""

from __future__ import annotations

import re

import by_hand
import numpy as np
import onnx_ir as ir
import pytest
import rewriting
from by_hand import ATTENTION, ATTENTION_WEIGHTS, CLOSE, SEQUENCES, attention, make

from pytest_sdperf.fusing.optimizations.fusions.attention import Attention
from pytest_sdperf.fusing.optimizations.fusions.packed_qkv import PackedQkv

SQUARE = "float[N, 6, 16] x, float[N, 6, 16] c"
LOWEST = np.finfo(np.float32).min
GUARD = {
    "p": "Softmax <axis = -1> (scores)\n nan = IsNaN(p)\n safe = Where(nan, zero, p)",
    "o": "MatMul(safe, vh)",
}


def later(number, size=6):
    return np.triu(np.full((1, 1, size, size), number, np.float32), 1)


def masked(mask, inputs=SQUARE, **lines):
    lines = {
        "scores": "Mul(products, scale)\n masked = Add(scores, mask)",
        "p": "Softmax <axis = -1> (masked)",
        **lines,
    }
    return attention(inputs, weights={"mask": mask, "half": np.float32(0.5)}, **lines)


def one_axis_for_batch_and_heads():
    """Batch and heads in one axis, as attention processors of older libraries write it."""
    lines = {
        **ATTENTION,
        "q3": "Reshape(qh, rows)",
        "kt": "Transpose <perm = [0, 2, 1, 3]> (ks)",
        "k3": "Reshape(kt, rows)",
        "kh": "Transpose <perm = [0, 2, 1]> (k3)",
        "v3": "Reshape(vh, rows)",
        "products": "MatMul(q3, kh)",
        "o": "MatMul(p, v3)",
        "o4": "Reshape(o, unrows)",
        "oh": "Transpose <perm = [0, 2, 1, 3]> (o4)",
    }
    order = ["q", "qs", "qh", "q3", "k", "ks", "kt", "k3", "kh", "v", "vs", "vh", "v3"]
    order += ["products", "scores", "p", "o", "o4", "oh", "y"]
    weights = {**ATTENTION_WEIGHTS, "rows": np.array([4, 6, 8]), "unrows": np.array([2, 2, 6, 8])}
    shape = "float[2, 6, 16]"
    return make({name: lines[name] for name in order}, f"{shape} x, {shape} c", f"{shape} y", weights)


def adapted(**lines):
    """Adapters beside the projections that nobody has merged into their weights."""
    low_rank = "MatMul({1}, {0}down)\n {0}up2 = MatMul({0}small, {0}up)\n {0}part = Mul({0}up2, half)"
    beside = {f"{name}small": low_rank.format(name, read) for name, read in (("q", "x"), ("k", "c"), ("v", "c"))}
    sums = {f"{name}all": f"Add({name}, {name}part)" for name in "qkv"}
    heads = {f"{name}s": f"Reshape({name}all, heads)" for name in "qkv"}
    projections = {name: ATTENTION[name] for name in "qkv"}
    rest = {name: line for name, line in ATTENTION.items() if name not in projections}
    weights = {f"{name}{which}": shape for name in "qkv" for which, shape in (("down", (16, 4)), ("up", (4, 16)))}
    return make(
        {**projections, **beside, **sums, **rest, **heads, **lines}, SEQUENCES, "float[N, S, 16] y",
        {**ATTENTION_WEIGHTS, **weights, "half": np.float32(0.5)},
    )  # fmt: skip


def causal_by_places():
    """Whether a place is no later than another one, asked in the graph, as exporters of opset 15 write it."""
    lines = {
        **ATTENTION,
        "scores": "Mul(products, scale)\n seen = LessOrEqual(columns, rows)\n mask = Where(seen, zero, lowest)\n "
        "masked = Add(scores, mask)",
        "p": "Softmax <axis = -1> (masked)",
    }
    places = np.arange(6)
    weights = {**ATTENTION_WEIGHTS, "columns": places[None], "rows": places[:, None], "lowest": np.float32(LOWEST)}
    return make(lines, SQUARE, "float[N, S, 16] y", weights, opset=15)


def image_without_projections():
    """Places of an image attend to each other; the image is scaled before it is a sequence."""
    lines = {
        "half_image": "Mul(x, half)",
        "columns": "Reshape(half_image, flat)",
        "places": "Transpose <perm = [0, 2, 1]> (columns)",
        "qs": "Reshape(places, split)",
        "qh": "Transpose <perm = [0, 2, 1, 3]> (qs)",
        "kh": "Transpose <perm = [0, 2, 3, 1]> (qs)",
        "products": "MatMul(qh, kh)",
        "scores": "Mul(products, scale)",
        "p": "Softmax <axis = -1> (scores)",
        "o": "MatMul(p, qh)",
        "oh": "Transpose <perm = [0, 2, 1, 3]> (o)",
        "y": "Reshape(oh, whole)",
    }
    weights = {
        **ATTENTION_WEIGHTS, "flat": np.array([0, 16, -1]), "split": np.array([0, -1, 2, 8]),
        "whole": np.array([0, -1, 16]), "half": np.float32(0.5),
    }  # fmt: skip
    return make(lines, "float[N, 16, H, W] x", "float[N, L, 16] y", weights)


# Name -> graph, MultiHeadAttention nodes, their attributes beside the number of heads.
FUSED = {
    "cross attention": (attention, {}),
    "self attention": (lambda: attention("float[N, S, 16] x", k="MatMul(x, wk)", v="MatMul(x, wv)"), {}),
    "scale on the left": (lambda: attention(scores="Mul(scale, products)"), {}),
    "division": (
        lambda: attention(scores="Div(products, root)", weights={"root": np.float32(8**0.5)}),
        {},
    ),
    "query scaled before it is split": (
        lambda: attention(
            q="MatMul(x, wq)\n small = Mul(q, scale)", qs="Reshape(small, heads)", scores="Identity(products)"
        ),
        {},
    ),
    "query scaled after it is split": (
        lambda: attention(
            qs="Reshape(q, heads)\n small = Mul(scale, qs)",
            qh="Transpose <perm = [0, 2, 1, 3]> (small)",
            scores="Identity(products)",
        ),
        {},
    ),
    "both scaled": (
        lambda: attention(
            qh="Transpose <perm = [0, 2, 1, 3]> (qs)\n ql = Mul(qh, root)",
            products="MatMul(ql, kl)",
            kh="Transpose <perm = [0, 2, 3, 1]> (ks)\n kl = Mul(kh, root)",
            scores="Identity(products)",
            weights={"root": np.float32(8**-0.25)},
        ),
        {},
    ),
    "another scale": (lambda: attention(weights={"scale": np.float32(0.5)}), {"scale": 0.5}),
    "negative query and key": (
        lambda: attention(
            q="MatMul(x, wq)\n qn = Mul(q, minus)",
            qs="Reshape(qn, heads)",
            k="MatMul(c, wk)\n kn = Mul(k, minus)",
            ks="Reshape(kn, heads)",
            weights={"minus": np.float32(-1)},
        ),
        {},
    ),
    "image scaled before it is a sequence": (image_without_projections, {}),
    "batch and heads in one axis": (one_axis_for_batch_and_heads, {}),
    "one sample": (lambda: attention("float[1, 6, 16] x, float[1, 7, 16] c", "float[1, 6, 16] y"), {}),
    "heads as many as large": (
        lambda: attention(
            "float[N, 4, 16] x, float[N, 4, 16] c",
            "float[N, 4, 16] y",
            weights={"heads": np.array([0, 0, 4, 4]), "scale": np.float32(0.5)},
        ),
        {},
    ),
    "one head": (
        lambda: attention(weights={"heads": np.array([0, 0, 1, 16]), "scale": np.float32(0.25)}),
        {},
    ),
    "causal": (lambda: masked(later(-np.inf)), {"unidirectional": 1}),
    "causal, finite": (lambda: masked(later(LOWEST)), {"unidirectional": 1}),
    "causal, as old exporters hide": (lambda: masked(later(-1e4)), {"unidirectional": 1}),
    "causal, mask first": (
        lambda: masked(later(LOWEST), scores="Mul(products, scale)\n masked = Add(mask, scores)"),
        {"unidirectional": 1},
    ),
    "causal, scaled afterwards": (
        lambda: masked(later(LOWEST), p="Mul(masked, half)\n ps = Softmax <axis = -1> (p)", o="MatMul(ps, vh)"),
        {"unidirectional": 1, "scale": 8**-0.5 / 2},
    ),
    "causal, mask reshaped": (
        lambda: masked(
            later(LOWEST), scores="Mul(products, scale)\n square = Squeeze(mask)\n masked = Add(scores, square)"
        ),
        {"unidirectional": 1},
    ),
    "causal, places compared": (causal_by_places, {"unidirectional": 1}),
    "adapters that are not merged": (adapted, {}),
    "mask of zeros": (lambda: masked(np.zeros((1, 1, 6, 6), np.float32)), {}),
    "guard against NaN": (lambda: attention(**GUARD), {}),
    "probabilities of rank 4 as float32": (
        lambda: attention(
            scores="Mul(products, scale)\n wide = Cast <to = 1> (scores)",
            p="Softmax <axis = 3> (wide)\n pw = Cast <to = 1> (p)",
            o="MatMul(pw, vh)",
        ),
        {},
    ),
    "query read by others": (
        lambda: attention(outputs="float[N, S, 16] y, float[N, S, 16] seen", q="MatMul(x, wq)\n seen = Relu(q)"),
        {},
    ),
    "heads of key an output": (lambda: attention(outputs="float[N, S, 16] y, float[N, 2, 8, 6] kh"), {}),
    "scores read by others": (
        lambda: attention(
            outputs="float[N, S, 16] y, float[N, 2, S, 6] seen", scores="Mul(products, scale)\n seen = Relu(scores)"
        ),
        {},
    ),
    "result read twice": (
        lambda: attention(outputs="float[N, S, 16] twice", y="Reshape(oh, whole)\n twice = Add(y, y)"),
        {},
    ),
}


def heads_of(model):
    return [node for node in model.graph if node.op_type == "MultiHeadAttention"]


@pytest.mark.parametrize("name", FUSED)
def test_attention_is_fused(name):
    build, attributes = FUSED[name]
    model = build()
    by_hand.fuse(model, Attention())
    (node,) = heads_of(model)
    found = {key: attribute.value for key, attribute in node.attributes.items() if key != "num_heads"}
    assert found == pytest.approx(attributes, rel=1e-6)
    assert max(by_hand.errors(build, model)) < CLOSE


def test_nothing_of_the_old_nodes_is_left():
    model = FUSED["causal"][0]()
    by_hand.fuse(model, Attention())
    assert rewriting.counts(model) == {"MatMul": 3, "com.microsoft::MultiHeadAttention": 1}


@pytest.mark.parametrize("build", [attention, FUSED["self attention"][0]], ids=["cross", "self"])
def test_projections_are_packed(build):
    model = build()
    by_hand.fuse(model, Attention(), PackedQkv())
    (node,) = heads_of(model)
    shapes = [tuple(value.shape) for value in node.inputs]
    assert shapes[-1][2:] == (2, 3 if build is not attention else 2, 8)
    assert len(shapes) == (1 if build is not attention else 2)
    assert max(by_hand.errors(build, model)) < CLOSE


def test_key_and_value_of_one_projection():
    def build():
        return attention(vs="Reshape(k, heads)")

    model = build()
    by_hand.fuse(model, Attention(), PackedQkv())
    assert len(heads_of(model)[0].inputs) == 2
    assert max(by_hand.errors(build, model)) < CLOSE


def test_a_sequence_behind_several_equal_casts_is_one_sequence():
    """A converter that keeps the types of inputs puts one cast before every reader."""
    casts = "{0}1 = Cast <to = 10> (c)\n {0}w = Cast <to = 1> ({0}1)"

    def build():
        lines = "\n ".join(["Reshape(q, heads)", casts.format("k"), casts.format("v")])
        return attention(qs=lines, k="MatMul(kw, wk)", v="MatMul(vw, wv)")

    model = build()
    by_hand.fuse(model, Attention(), PackedQkv())
    assert len(heads_of(model)[0].inputs) == 2
    assert rewriting.counts(model)["Cast"] == 2
    assert max(by_hand.errors(build, model)) < 2.0**-9  # the casts are through float16


def test_weights_shared_by_attentions_of_other_heads():
    def build():
        words = re.compile(rf"\b({'|'.join([*ATTENTION, 'heads', 'scale'])})\b")
        second = {f"{name}2": words.sub(r"\g<1>2", line) for name, line in ATTENTION.items()}
        weights = {**ATTENTION_WEIGHTS, "heads2": np.array([0, 0, 4, 4]), "scale2": np.float32(0.5)}
        return make({**ATTENTION, **second, "z": "Add(y, y2)"}, SEQUENCES, "float[N, S, 16] z", weights)

    model = build()
    by_hand.fuse(model, Attention(), PackedQkv())
    assert [node.attributes["num_heads"].as_int() for node in heads_of(model)] == [2, 4]
    assert len({value.name for value in model.graph.initializers.values() if "packed" in value.name}) == 2
    assert max(by_hand.errors(build, model)) < CLOSE


def test_a_weight_that_has_the_name_of_a_packed_one():
    def build():
        lines = {"y": "Reshape(oh, whole)\n z = Add(y, extra)"}
        model = attention(outputs="float[N, S, 16] z", weights={"extra": (16,)}, **lines)
        model.graph.initializers["extra"].name = "wk.packed2"
        return model

    model = build()
    by_hand.fuse(model, Attention(), PackedQkv())
    assert max(by_hand.errors(build, model)) < CLOSE


def test_float16_graphs_keep_their_type():
    model = attention()
    for value in [*model.graph.inputs, *model.graph.outputs, *(v for node in model.graph for v in node.outputs)]:
        value.dtype = ir.DataType.FLOAT16
    for value in model.graph.initializers.values():
        if value.dtype == ir.DataType.FLOAT:
            value.const_value = ir.tensor(value.const_value.numpy().astype(np.float16), name=value.name)
            value.dtype = ir.DataType.FLOAT16
    by_hand.fuse(model, Attention())
    (node,) = heads_of(model)
    # The exporter has rounded the scale to float16; the fused node says what the graph says.
    assert node.attributes["scale"].as_float() == pytest.approx(float(np.float16(8**-0.5)))
    assert {value.dtype for value in (*node.inputs, *node.outputs)} == {ir.DataType.FLOAT16}
