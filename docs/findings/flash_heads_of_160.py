"""Attention of onnxruntime's flash kernel with heads of 160 channels, against NumPy in float64.

    python flash_heads_of_160.py [--provider=CUDAExecutionProvider] [--kernel=1]

Needs onnx, numpy and onnxruntime-gpu. Kernels: 1 flash, 2 efficient, 8 cuDNN, 16 math. Each line is one shape that the
UNet of Stable Diffusion 1.5 has, with 8 heads. The exit status is 1 where an answer is wrong, else 0.
"""

import argparse
import contextlib
import itertools
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper

HEADS, SIZE = 8, 160
BATCHES = (2, 8, 16)
ROWS_AND_KEYS = ((256, 256), (256, 77), (64, 64), (64, 77))


def model(batch, rows, keys):
    """One MultiHeadAttention with separate query, key and value."""
    width = HEADS * SIZE
    shapes = {"query": (batch, rows, width), "key": (batch, keys, width), "value": (batch, keys, width)}
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT16, shape) for name, shape in shapes.items()]
    output = helper.make_tensor_value_info("output", TensorProto.FLOAT16, shapes["query"])
    node = helper.make_node("MultiHeadAttention", list(shapes), ["output"], domain="com.microsoft", num_heads=HEADS)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "attention", inputs, [output])
    made = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    onnx.checker.check_model(made)
    return made.SerializeToString(), shapes


def expected(query, key, value):
    """Compute it by its definition, in float64."""
    split = [
        each.astype(np.float64).reshape(*each.shape[:2], HEADS, SIZE).swapaxes(1, 2) for each in (query, key, value)
    ]
    scores = split[0] @ split[1].swapaxes(-1, -2) / np.sqrt(SIZE)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return (weights @ split[2]).swapaxes(1, 2).reshape(query.shape)


def main():
    """Compare every shape; return whether one is wrong."""
    with contextlib.suppress(ImportError):
        import torch  # noqa: F401 (it brings the CUDA libraries)
    import onnxruntime

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--provider", default="CUDAExecutionProvider")
    parser.add_argument("--kernel", default="1")
    chosen = parser.parse_args()
    options = {"sdpa_kernel": chosen.kernel} if chosen.provider == "CUDAExecutionProvider" else {}
    random, wrong = np.random.default_rng(0), False
    for batch, (rows, keys) in itertools.product(BATCHES, ROWS_AND_KEYS):
        made, shapes = model(batch, rows, keys)
        feeds = {name: random.standard_normal(shape).astype(np.float16) for name, shape in shapes.items()}
        session = onnxruntime.InferenceSession(made, providers=[(chosen.provider, options)])
        answer, right = session.run(None, feeds)[0].astype(np.float64), expected(*feeds.values())
        error = np.linalg.norm(answer - right) / np.linalg.norm(right)
        good = error < 0.01  # false for NaN, too
        wrong = wrong or not good
        print(
            f"batch {batch:2}, {rows:3} rows, {keys:3} keys: relative L2 error {error:.1e}{'' if good else '  WRONG'}"
        )
    return wrong


if __name__ == "__main__":
    sys.exit(main())
