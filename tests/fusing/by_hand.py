"""Small graphs written by hand: one line per node, named after what it computes, and weights drawn by shape."""

from __future__ import annotations

import exact
import numpy as np
import onnx
import onnx_ir as ir
import rewriting

# Rounding of a few operators on small sums, in float32: units of 2^-24.
CLOSE = 32 * 2.0**-24


def draw(shape, name):
    seed = sum(ord(letter) * 31**index for index, letter in enumerate(name))
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def make(lines, inputs, outputs, weights, *, opset=18):
    """A model. `lines`: name of a value -> `Op <attributes> (inputs)`; `weights`: name -> shape, or what it holds.

    A line may go on with further lines that name what they compute themselves. `inputs` and `outputs` are onnx's text
    for them, such as `float[N, 4, 6, 6] x`.
    """
    body = "\n".join(f"{name} = {line}" for name, line in lines.items())
    text = f'<ir_version: 9, opset_import: ["": {opset}, "com.microsoft": 1]> g ({inputs}) => ({outputs}) {{ {body} }}'
    proto = onnx.parser.parse_model(text)
    wanted = {name for node in proto.graph.node for name in node.input} | {value.name for value in proto.graph.output}
    for name in sorted(wanted & set(weights)):
        given = weights[name]
        array = draw(given, name) if isinstance(given, tuple) else np.asarray(given)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    model = ir.from_proto(proto)
    for node in model.graph:
        node.name = node.outputs[0].name
    return model


def fuse(model, *fusions, **how):
    """Fuse in place; return the places that were looked at."""
    return rewriting.fuse(model, fusions, **how)


def refusals(sites, fusion):
    """Where a fusion stopped, at what operator, and why."""
    return [(site.node, site.op_type, site.reason) for site in sites if site.op == fusion.op and site.reason]


def errors(build, fused, *, sizes=None):
    """The error of a fused graph against the same graph in float64, at two choices of open sizes."""
    found = []
    for seed, given in enumerate(sizes or ({"N": 2, "S": 6, "H": 8, "W": 12}, {"N": 1, "S": 9, "H": 6, "W": 4})):
        plain = build()
        inputs = rewriting.draw_inputs(plain, given, seed=seed)
        expected = exact.evaluate(plain, inputs)
        found.append(rewriting.error(rewriting.run(fused.clone(), inputs), expected))
    return found


# --------------------------------------------------------------------------------------------------- building blocks

INTS = {
    "one": np.array([1]), "heads": np.array([0, 0, 2, 8]), "whole": np.array([0, 0, 16]), "zero": np.float32(0),
    "groups": np.array([0, 4, -1]), "ones": np.ones(4, np.float32), "zeros": np.zeros(4, np.float32),
}  # fmt: skip

ATTENTION = {
    "q": "MatMul(x, wq)",
    "qs": "Reshape(q, heads)",
    "qh": "Transpose <perm = [0, 2, 1, 3]> (qs)",
    "k": "MatMul(c, wk)",
    "ks": "Reshape(k, heads)",
    "kh": "Transpose <perm = [0, 2, 3, 1]> (ks)",
    "v": "MatMul(c, wv)",
    "vs": "Reshape(v, heads)",
    "vh": "Transpose <perm = [0, 2, 1, 3]> (vs)",
    "products": "MatMul(qh, kh)",
    "scores": "Mul(products, scale)",
    "p": "Softmax <axis = -1> (scores)",
    "o": "MatMul(p, vh)",
    "oh": "Transpose <perm = [0, 2, 1, 3]> (o)",
    "y": "Reshape(oh, whole)",
}
SEQUENCES = "float[N, S, 16] x, float[N, 6, 16] c"
ATTENTION_WEIGHTS = {**INTS, "wq": (16, 16), "wk": (16, 16), "wv": (16, 16), "scale": np.float32(8**-0.5)}


def attention(inputs=SEQUENCES, outputs="float[N, S, 16] y", weights=None, **lines):
    return make({**ATTENTION, **lines}, inputs, outputs, {**ATTENTION_WEIGHTS, **(weights or {})})


SKIP_NORM = {
    "a": "MatMul(x, w)",
    "ab": "Add(a, b)",
    "t": "Add(ab, x)",
    "n": "LayerNormalization <epsilon = 0.00001> (t, gamma, beta)",
    "y": "Add(n, t)",
}


def layer_norm(inputs="float[N, S, 16] x", outputs="float[N, S, 16] y", weights=None, lines=None, **changed):
    given = {"w": (16, 16), "b": (16,), "gamma": (16,), "beta": (16,), **INTS, **(weights or {})}
    return make({**(lines or SKIP_NORM), **changed}, inputs, outputs, given)


PARTS = {
    "mean": "ReduceMean(x, last)",
    "d": "Sub(x, mean)",
    "p": "Pow(d, two)",
    "v": "ReduceMean(p, last)",
    "ve": "Add(v, epsilon)",
    "root": "Sqrt(ve)",
    "n": "Div(d, root)",
    "s": "Mul(n, gamma)",
    "y": "Add(s, beta)",
}


def parts(inputs="float[N, S, 16] x", outputs="float[N, S, 16] y", weights=None, opset=18, **changed):
    """A norm of a sequence, taken apart."""
    given = {
        "last": np.array([-1]), "first": np.array([1]), "two": np.float32(2), "epsilon": np.float32(1e-4),
        "gamma": (16,), "beta": (16,), "w": (16, 16), **(weights or {}),
    }  # fmt: skip
    return make({**PARTS, **changed}, inputs, outputs, given, opset=opset)


GROUP_NORM = {
    "split": "Reshape(x, groups)",
    "i": "InstanceNormalization <epsilon = 0.00001> (split, ones, zeros)",
    "shape": "Shape(x)",
    "joined": "Reshape(i, shape)",
    "scaled": "Mul(joined, gamma)",
    "shifted": "Add(scaled, beta)",
    "gate": "Sigmoid(shifted)",
    "y": "Mul(shifted, gate)",
}
IMAGE = "float[N, 8, H, W] x"


def group_norm(inputs=IMAGE, outputs="float[N, 8, H, W] y", weights=None, lines=None, **changed):
    given = {**INTS, "gamma": (8, 1, 1), "beta": (1, 8, 1, 1), **(weights or {})}
    return make({**(lines or GROUP_NORM), **changed}, inputs, outputs, given)


GEGLU = {
    "a": "MatMul(x, w)",
    "ab": "Add(a, b)",
    "left, right": "Split <axis = 2, num_outputs = 2> (ab)",
    "scaled": "Div(right, root)",
    "erf": "Erf(scaled)",
    "more": "Add(erf, one)",
    "half": "Mul(right, more)",
    "gelu": "Mul(half, point5)",
    "gated": "Mul(left, gelu)",
    "d": "MatMul(gated, w2)",
    "db": "Add(d, b2)",
    "y": "Add(db, x)",
}


def geglu(inputs="float[N, S, 16] x", outputs="float[N, S, 16] y", weights=None, lines=None, **changed):
    given = {
        "w": (16, 64), "b": (64,), "w2": (32, 16), "b2": (16,), "root": np.float32(2**0.5), "one": np.float32(1),
        "point5": np.float32(0.5), "start": np.array([0]), "middle": np.array([32]), "end": np.array([64]),
        "last": np.array([-1]), "slope": np.float32(1.702), **(weights or {}),
    }  # fmt: skip
    return make({**(lines or GEGLU), **changed}, inputs, outputs, given)


def convolution(inputs="float[N, 4, H, W] x", outputs="float[N, 8, H, W] y", weights=None, **lines):
    given = {"w": (8, 4, 3, 3), "b": (8,), **INTS, **(weights or {})}
    return make({"y": "Conv <pads = [1, 1, 1, 1]> (x, w, b)", **lines}, inputs, outputs, given)
