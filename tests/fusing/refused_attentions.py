"""Attentions that are refused."""

from __future__ import annotations

import numpy as np
from by_hand import SEQUENCES, attention, make

from pytest_sdperf.fusing.optimizations.fusions.attention import Attention
from pytest_sdperf.fusing.optimizations.fusions.packed_qkv import PackedQkv

SQUARE = "float[N, 6, 16] x, float[N, 6, 16] c"
LATER = np.triu(np.full((6, 6), -np.inf, np.float32), 1)
MASKED = {"scores": "Mul(products, scale)\n masked = Add(scores, mask)", "p": "Softmax <axis = -1> (masked)"}


def masked(mask, **lines):
    return attention(SQUARE, weights={"mask": mask}, **{**MASKED, **lines})


UNLIKE = (
    "query, key and value are sequences of shapes (3, 5, 16), (1, 6, 16) and (1, 6, 16), which do not belong together"
)
FUSED = "com.microsoft.MultiHeadAttention <num_heads = 2> (x, k, v)"

# A fusion and those before it, the graph, and every refusal: node, operator, reason. A node is named after what it
# computes (see `by_hand`).
CASES = {
    "numbers of another type": (
        [Attention()],
        lambda: attention("double[N, S, 16] x, double[N, 6, 16] c", "double[N, S, 16] y"),
        [("p", "Softmax", "MultiHeadAttention takes no numbers of type DOUBLE")],
    ),
    "softmax over another axis": (
        [Attention()],
        lambda: attention(p="Softmax <axis = 2> (scores)"),
        [("p", "Softmax", "it is no softmax over the last axis of scores of rank 3 or 4")],
    ),
    "softmax of no product": (
        [Attention()],
        lambda: make({"y": "Softmax <axis = -1> (x)"}, "float[N, 2, 6, 6] x", "float[N, 2, 6, 6] y", {}),
        [("y", "Softmax", "its scores are no matrix product")],
    ),
    "softmax of a rectified product": (
        [Attention()],
        lambda: attention(scores="Mul(products, scale)\n r = Relu(scores)", p="Softmax <axis = -1> (r)"),
        [("r", "Relu", "its scores are no matrix product")],
    ),
    "mask of more samples": (
        [Attention()],
        lambda: attention(
            "float[1, 6, 16] x, float[1, 6, 16] c",
            "float[2, 6, 16] y",
            weights={"mask": np.zeros((2, 1, 6, 6), np.float32), "whole": np.array([2, 6, 16])},
            **MASKED,
        ),
        [("masked", "Add", "what its scores are combined with changes their shape")],
    ),
    "mask from an input": (
        [Attention()],
        lambda: attention(f"{SEQUENCES}, float[N, 1, 1, 6] mask", **MASKED),
        [("masked", "Add", "a mask that depends on an input is added to its scores")],
    ),
    "two masks": (
        [Attention()],
        lambda: masked(LATER, p="Add(masked, mask)\n p2 = Softmax <axis = -1> (p)", o="MatMul(p2, vh)"),
        [("masked", "Add", "two masks are added to its scores")],
    ),
    "scores times an input": (
        [Attention()],
        lambda: attention(f"{SEQUENCES}, float[N, 1, 1, 1] t", scores="Mul(products, t)"),
        [("scores", "Mul", "its scores are multiplied by something other than a positive constant")],
    ),
    "scores times a negative number": (
        [Attention()],
        lambda: attention(weights={"scale": np.float32(-0.3)}),
        [("scores", "Mul", "its scores are multiplied by something other than a positive constant")],
    ),
    "number divided by scores": (
        [Attention()],
        lambda: attention(scores="Div(scale, products)"),
        [("scores", "Div", "its scores are multiplied by something other than a positive constant")],
    ),
    "probabilities on the right": (
        [Attention()],
        lambda: attention(
            SQUARE,
            o="MatMul(vt, p)",
            vh="Transpose <perm = [0, 2, 1, 3]> (vs)\nvt = Transpose <perm = [0, 1, 3, 2]> (vh)",
            oh="Transpose <perm = [0, 3, 1, 2]> (o)",
        ),
        [("o", "MatMul", "its probabilities are not multiplied with a value alone")],
    ),
    "probabilities as an output": (
        [Attention()],
        lambda: attention(outputs="float[N, S, 16] y, float[N, 2, S, 6] p"),
        [("o", "MatMul", "its probabilities are not multiplied with a value alone")],
    ),
    "probabilities that nobody reads": (
        [Attention()],
        lambda: make({"s": "MatMul(x, x)", "y": "Softmax(s)"}, "float[N, 2, 6, 6] x", "float[N, 2, 6, 6] y", {}),
        [("y", "Softmax", "its probabilities are not multiplied with a value alone")],
    ),
    "NaN replaced by one": (
        [Attention()],
        lambda: attention(
            p="Softmax <axis = -1> (scores)\n nan = IsNaN(p)\n safe = Where(nan, full, p)",
            o="MatMul(safe, vh)",
            weights={"full": np.float32(1)},
        ),
        [("safe", "Where", "its probabilities are replaced by something other than zero")],
    ),
    "NaN replaced by an input": (
        [Attention()],
        lambda: attention(
            f"{SEQUENCES}, float t",
            p="Softmax <axis = -1> (scores)\n nan = IsNaN(p)\n safe = Where(nan, t, p)",
            o="MatMul(safe, vh)",
        ),
        [("safe", "Where", "its probabilities are replaced by something other than zero")],
    ),
    "probabilities read beside their guard": (
        [Attention()],
        lambda: attention(
            outputs="float[N, S, 16] y, float[N, 2, S, 6] seen",
            p="Softmax <axis = -1> (scores)\n nan = IsNaN(p)\n safe = Where(nan, zero, p)\n seen = Relu(p)",
            o="MatMul(safe, vh)",
        ),
        [("seen", "Relu", "its probabilities are read by others too")],
    ),
    "probabilities an output beside their guard": (
        [Attention()],
        lambda: attention(
            outputs="float[N, S, 16] y, float[N, 2, S, 6] p",
            p="Softmax <axis = -1> (scores)\n nan = IsNaN(p)\n safe = Where(nan, zero, p)",
            o="MatMul(safe, vh)",
        ),
        [("safe", "Where", "its probabilities are read by others too")],
    ),
    "heads of another size": (
        [Attention()],
        lambda: attention(
            outputs="float[N, S, 32] y",
            weights={"wv": (16, 32), "whole": np.array([0, 0, 32]), "broad": np.array([0, 0, 2, 16])},
            vs="Reshape(v, broad)",
        ),
        [("products", "MatMul", "query, key and value have different heads: 2 of 8, 2 of 8, 2 of 16")],
    ),
    "keys of one sample": (
        [Attention()],
        lambda: attention("float[3, 5, 16] x, float[1, 6, 16] c", "float[3, 5, 16] y"),
        [("products", "MatMul", UNLIKE)],
    ),
    "scaled value": (
        [Attention()],
        lambda: attention(
            v="MatMul(c, wv)\n scaled = Mul(v, third)", vs="Reshape(scaled, heads)", weights={"third": np.float32(0.25)}
        ),
        [("o", "MatMul", "its value is scaled by 0.25")],
    ),
    "negative query": (
        [Attention()],
        lambda: attention(
            q="MatMul(x, wq)\n qn = Mul(q, minus)", qs="Reshape(qn, heads)", weights={"minus": np.float32(-2)}
        ),
        [("products", "MatMul", "its scale is -0.707107, not positive")],
    ),
    "unknown mask": (
        [Attention()],
        lambda: attention(SQUARE, weights={"mask": (2, 6, 6)}, **MASKED),
        [("p", "Softmax", "the mask that is added to its scores is not known")],
    ),
    "mask of the past": (
        [Attention()],
        lambda: masked(LATER.T.copy()),
        [("p", "Softmax", "the mask that is added to its scores is neither causal nor zero")],
    ),
    "mask of one key": (
        [Attention()],
        lambda: masked(np.array([0, 0, 0, 0, 0, -np.inf], np.float32)),
        [("p", "Softmax", "the mask that is added to its scores is neither causal nor zero")],
    ),
    "mask made small by a factor": (
        [Attention()],
        lambda: attention(
            SQUARE,
            weights={"mask": np.triu(np.full((6, 6), -1e5, np.float32), 1), "tiny": np.float32(1e-3)},
            **{**MASKED, "p": "Mul(masked, tiny)\n p2 = Softmax <axis = -1> (p)", "o": "MatMul(p2, vh)"},
        ),
        [("p2", "Softmax", "the mask that is added to its scores is neither causal nor zero")],
    ),
    "one head that is not split": (
        [Attention()],
        lambda: make(
            {"qk": "MatMul(x, c)", "p": "Softmax <axis = -1> (qk)", "y": "MatMul(p, z)"},
            "float[N, S, 16] x, float[N, 16, 6] c, float[N, 6, 16] z",
            "float[N, S, 16] y",
            {},
        ),
        [("p", "Softmax", "its operand is not split into heads by Reshape and Transpose")],
    ),
    "number of heads from an input": (
        [Attention()],
        lambda: make(
            {
                "xs": "Reshape(x, flat)",
                "qs": "Reshape(xs, many)",
                "qh": "Transpose <perm = [0, 2, 1, 3]> (qs)",
                "kh": "Transpose <perm = [0, 2, 3, 1]> (qs)",
                "s": "MatMul(qh, kh)",
                "p": "Softmax <axis = -1> (s)",
                "o": "MatMul(p, qh)",
                "oh": "Transpose <perm = [0, 2, 1, 3]> (o)",
                "y": "Reshape(oh, flat)",
            },
            "float[N, 4, H, W] x",
            "float[N, 4, L] y",
            {"flat": np.array([0, 4, -1]), "many": np.array([0, 0, -1, 8])},
        ),
        [("qs", "Reshape", "number or size of its heads depends on the shape of an input")],
    ),
    "heads and places not exchanged": (
        [Attention()],
        lambda: attention("float[N, 2, 16] x, float[N, 2, 16] c", "float[N, 2, 16] y", qh="Identity(qs)"),
        [("qs", "Reshape", "its operand does not become (b, n, s, h) by splitting (b, s, n x h)")],
    ),
    "size of heads before their number": (
        [Attention()],
        lambda: attention(
            ks="Reshape(k, turned)",
            kh="Transpose <perm = [0, 3, 2, 1]> (ks)",
            weights={"turned": np.array([0, 0, 8, 2])},
        ),
        [("ks", "Reshape", "its operand does not become (b, n, h, s) by splitting (b, s, n x h)")],
    ),
    "result of a shape from an input": (
        [Attention()],
        lambda: attention(f"{SEQUENCES}, int64[3] sizes", y="Reshape(oh, sizes)"),
        [("y", "Reshape", "the shape of its result is not known")],
    ),
    "result cut through heads": (
        [Attention()],
        lambda: attention(
            "float[2, 6, 16] x, float[2, 6, 16] c",
            "float[2, 6, 16] y",
            oh="Reshape(o, cut)",
            weights={"cut": np.array([2, 2, 3, 16])},
        ),
        [("oh", "Reshape", "its result is cut differently from its heads")],
    ),
    "result that is not put together": (
        [Attention()],
        lambda: attention(outputs="float[N, 2, S, 8] o"),
        [("o", "MatMul", "its result is not put together to (b, s, n x h) by Transpose and Reshape")],
    ),
    "key with a bias": (
        [Attention(), PackedQkv()],
        lambda: attention(weights={"b": (16,)}, k="MatMul(c, wk)\n kb = Add(k, b)", ks="Reshape(kb, heads)"),
        [("kb", "Add", "its key or value is no projection without bias")],
    ),
    "value with a bias": (
        [Attention(), PackedQkv()],
        lambda: attention(weights={"b": (16,)}, v="MatMul(c, wv)\n vb = Add(v, b)", vs="Reshape(vb, heads)"),
        [("vb", "Add", "its key or value is no projection without bias")],
    ),
    "key with an adapter beside it": (
        [Attention(), PackedQkv()],
        lambda: attention(
            k="MatMul(c, wk)\n low = MatMul(c, down)\n high = MatMul(low, up)\n ka = Add(k, high)",
            ks="Reshape(ka, heads)",
            weights={"down": (16, 4), "up": (4, 16)},
        ),
        [("ka", "Add", "its key or value is no projection without bias")],
    ),
    "key that is an input": (
        [Attention(), PackedQkv()],
        lambda: attention(ks="Reshape(c, heads)", k="Identity(c)"),
        [("sdperf_MultiHeadAttention_0", "MultiHeadAttention", "its key or value is no projection without bias")],
    ),
    "key and value of different sequences": (
        [Attention(), PackedQkv()],
        lambda: attention(f"{SEQUENCES}, float[N, 6, 16] z", v="MatMul(z, wv)"),
        [("v", "MatMul", "its key and value are projections of different sequences")],
    ),
    "projection by an input": (
        [Attention(), PackedQkv()],
        lambda: attention(f"{SEQUENCES}, float[16, 16] w", v="MatMul(c, w)"),
        [("v", "MatMul", "it is projected by something other than a weight of rank 2")],
    ),
    "key read by others": (
        [Attention(), PackedQkv()],
        lambda: attention(outputs="float[N, S, 16] y, float[N, 6, 16] seen", k="MatMul(c, wk)\n seen = Relu(k)"),
        [("k", "MatMul", "a projection is read by others too")],
    ),
    "value that is an output": (
        [Attention(), PackedQkv()],
        lambda: attention(outputs="float[N, S, 16] y, float[N, 6, 16] v"),
        [("v", "MatMul", "a projection is read by others too")],
    ),
    "projection of rank 3": (
        [Attention(), PackedQkv()],
        lambda: attention("float[N, 6, 16] x, float[N, 6, 16] c", weights={"wk": (1, 16, 16)}),
        [("k", "MatMul", "it is projected by something other than a weight of rank 2")],
    ),
    "value of another width": (
        [PackedQkv()],
        lambda: make(
            {"k": "MatMul(x, wk)", "v": "MatMul(x, wv)", "y": FUSED},
            "float[N, S, 16] x",
            "float[N, S, 32] y",
            {"wk": (16, 16), "wv": (16, 32)},
        ),
        [("k", "MatMul", "its projections differ in size")],
    ),
    "causal attention": (
        [Attention(), PackedQkv()],
        lambda: masked(LATER),
        [("sdperf_MultiHeadAttention_0", "MultiHeadAttention", "it is causal")],
    ),
}
