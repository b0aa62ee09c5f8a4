from __future__ import annotations

import re

import numpy as np
import onnx_ir as ir
import pytest
from weight_roles import Role, Use, weight_use


def _use(body, *, shape):
    """Return the use of the weight `w` in a graph; `x` is its input, and further names are made up as needed."""
    text = (
        f"""<ir_version: 9, opset_import: ["" : 18, "other" : 1]> g (float[2, 96, 8, 8] x) => (float y) {{ {body} }}"""
    )
    arrays = {"w": np.ones(shape, np.float32), "b": np.ones(96, np.float32), "axes": np.array([1, 2])}
    used = set(re.findall(r"\w+", body))
    model = ir.from_onnx_text(
        text, initializers=[ir.tensor(arrays[name], name=name) for name in arrays if name in used]
    )
    return weight_use(model.graph.initializers["w"])


@pytest.mark.parametrize(
    ("body", "shape", "use"),
    [
        ("y = Conv(x, w)", (64, 96, 3, 3), Use(Role.MATRIX, 96 * 9)),
        ("y = Conv(x, k, w)", (96,), Use(Role.BIAS)),
        ("y = ConvTranspose(x, w)", (96, 64, 2, 2), Use(Role.MATRIX, 96 * 4)),
        ("y = MatMul(x, w)", (96, 64), Use(Role.MATRIX, 96)),
        ("y = MatMul(x, w)", (5, 96, 64), Use(Role.MATRIX, 96)),
        ("y = MatMul(x, w)", (96,), Use(Role.MATRIX, 96)),
        ("y = MatMul(w, x)", (64, 96), Use(Role.MATRIX, 96)),
        ("y = Gemm(x, w)", (96, 64), Use(Role.MATRIX, 96)),
        ("y = Gemm<transB = 1>(x, w)", (64, 96), Use(Role.MATRIX, 96)),
        ("y = Gemm(w, x)", (64, 96), Use(Role.MATRIX, 96)),
        ("y = Gemm<transA = 1>(w, x)", (96, 64), Use(Role.MATRIX, 96)),
        ("y = Gemm(x, k, w)", (96,), Use(Role.BIAS)),
        ("t = Transpose<perm = [1, 0]>(w) y = MatMul(x, t)", (64, 96), Use(Role.MATRIX, 96)),
        ("t = Transpose(w) y = MatMul(x, t)", (64, 96), Use(Role.MATRIX, 96)),
        ("t = Cast<to = 10>(w) y = MatMul(x, t)", (96, 64), Use(Role.MATRIX, 96)),
        ("y = Gather(w, i)", (1000, 96), Use(Role.TABLE)),
        ("y = LayerNormalization(x, w, b)", (96,), Use(Role.SCALE)),
        ("y = LayerNormalization(x, k, w)", (96,), Use(Role.SHIFT)),
        ("y = Add(x, w)", (96,), Use(Role.BIAS)),
        ("y = Add(w, x)", (96, 1, 1), Use(Role.BIAS)),
        ("y = Add(x, w)", (1, 77, 96), Use(Role.TABLE)),
        ("m = Mul(x, w) y = Add(m, b)", (96, 1, 1), Use(Role.SCALE)),
        ("u = Unsqueeze(w, axes) m = Mul(x, u) y = Add(m, b)", (96,), Use(Role.SCALE)),
        ("m = Mul(w, x) c = Cast<to = 10>(m) y = Add(b, c)", (96, 1, 1), Use(Role.SCALE)),
        ("m = Mul(x, b) y = Add(m, w)", (96, 1, 1), Use(Role.SHIFT)),
        ("m = Mul(x, b) c = Cast<to = 10>(m) y = Add(w, c)", (96, 1, 1), Use(Role.SHIFT)),
    ],
)
def test_weights_of_ops(body, shape, use):
    assert _use(body, shape=shape) == use


@pytest.mark.parametrize(
    "body",
    [
        "f = Mul(x, w) y = Sin(f)",  # frequencies of a timestep embedding
        "m = Mul(x, w) s = Sin(m) c = Add(m, b) y = Add(s, c)",
        "y = Where(i, x, w)",
        "y = Sub(x, w)",
        "y = Concat<axis = 0>(x, w)",
        "a = Add(x, w) y = Where(i, a, w)",  # one use as a weight is not enough
        "t = Transpose(w) a = MatMul(x, t) y = Sin(t)",
        "y = Gather(x, w)",
        "y = other.MatMul(x, w)",
        "y = Identity(w)",  # an output of the graph
        "y = Identity(x) z = Identity(w)",  # used by nothing
    ],
)
def test_structure(body):
    assert _use(body, shape=(96,)) is None
