"""Models of one contrib op, how they are lowered, run on a CPU and compared, and inputs for them."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx_ir as ir
import onnxruntime
import torch

from pytest_sdperf.fusing.lowering import lower

# The largest error that a definition may have, in units of rounding (of the type) of the largest value. In float16 the
# sum of a skip and a bias is rounded twice on its way.
UNITS = {np.float32: 8, np.float16: 4}


def draw(*shape, dtype=np.float32, seed=0, scale=1.0, offset=0.0):
    random = np.random.default_rng([seed, len(shape), *shape])
    return (scale * random.standard_normal(shape) + offset).astype(dtype)


def one_op(op_type, inputs, *, attributes=None, outputs=("Y",), knowledge="static", opset=18, weights=()):
    """A model of one node. `inputs` are arrays by name, None for one that is left out; `weights` are initializers.

    What the graph knows of the inputs of the node: everything, open sizes, or neither shape nor type.
    """
    entries, node_inputs, nodes, initializers = [], [], [], []
    for name, array in inputs.items():
        if array is None:
            node_inputs.append(None)
            continue
        kind = ir.DataType.from_numpy(array.dtype)
        dims = list(array.shape) if knowledge == "static" else [f"{name}_{i}" for i in range(array.ndim)]
        if name in weights:
            value = ir.val(name, const_value=ir.tensor(array, name=name))
            initializers.append(value)
        else:
            value = ir.val(name, dtype=kind, shape=dims)
            entries.append(value)
            if knowledge == "unknown":
                nodes.append(ir.node("Identity", [value], name=f"hide_{name}"))
                value = nodes[-1].outputs[0]
                value.name = f"hidden_{name}"
        node_inputs.append(value)
    made = [ir.Value(name=name) for name in outputs]
    nodes.append(ir.node(op_type, node_inputs, attributes, domain="com.microsoft", outputs=made, name="it"))
    dtype = ir.DataType.from_numpy(next(iter(inputs.values())).dtype)
    for value in made:
        value.dtype = dtype if value.name else None
    graph = ir.Graph(
        entries,
        [value for value in made if value.name],
        nodes=nodes,
        initializers=initializers,
        opset_imports={"": opset, "com.microsoft": 1},
        name="one_op",
    )
    return ir.Model(graph, ir_version=10)


def session_of(model, *, optimized=True):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    graph = ir.to_proto(model).SerializeToString()
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


def execute(model, inputs, *, optimized=True):
    session = session_of(model, optimized=optimized)
    return session.run(None, {entry.name: inputs[entry.name] for entry in session.get_inputs()})


def lowered(op_type, inputs, *, optimized=False, **how):
    """What a lowered node computes: as it is written, or as ONNX Runtime optimizes it."""
    model = one_op(op_type, inputs, **how)
    assert lower(model) == Counter({f"com.microsoft::{op_type}": 1})
    return execute(model, inputs, optimized=optimized)


def wide(array):
    return torch.from_numpy(array.astype(np.float64))


def error_units(obtained, expected, *, terms=None):
    """The largest error in units of rounding of the largest value, or of the largest of the terms behind it."""
    assert obtained.shape == tuple(expected.shape)
    assert np.isfinite(obtained).all()
    largest = (expected if terms is None else terms).abs().max().item() or 1.0
    return np.abs(obtained.astype(np.float64) - expected.numpy()).max() / (np.finfo(obtained.dtype).eps * largest)


def assert_agrees(obtained, expected, *, dtype, terms=None):
    assert obtained.dtype == dtype
    assert error_units(obtained, expected, terms=terms) <= UNITS[dtype]


NORM = {"X": draw(2, 6, 6, 8, offset=0.5), "gamma": draw(8, seed=1), "beta": draw(8, seed=2)}
FLAT_NORM = {**NORM, "X": draw(2, 6, 6, 8, scale=3e-3)}
SKIP_NORM = {**NORM, "skip": draw(2, 8, seed=3), "bias": draw(8, seed=4)}
CONV = {"X": draw(2, 6, 6, 4), "W": draw(4, 3, 3, 2, seed=1), "B": draw(4, seed=2)}
GELU = {"X": draw(2, 5, 16), "bias": draw(16, seed=1)}
ADD = {"X": draw(2, 5, 8), "bias": draw(8, seed=1), "skip": draw(2, 5, 8, seed=2)}
QKV = {"query": draw(2, 5, 2, 3, 8)}
KV = {"query": draw(2, 5, 16), "key": draw(2, 7, 2, 2, 8, seed=1)}

NORM_SAYS = {"groups": 4, "activation": 1, "epsilon": 1e-5}
CONV_SAYS = {"group": 2, "pads": [1, 1, 1, 1], "dilations": [1, 1], "strides": [1, 1]}
HEADS_SAY = {"num_heads": 2}
