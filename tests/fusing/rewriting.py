"""Graphs to fuse: where they come from, how they are fused optimization by optimization, run on a CPU, and compared."""

from __future__ import annotations

import collections
import functools

import exact
import graph_zoo
import numpy as np
import onnx_ir as ir
import torch
from one_op import session_of
from onnx_ir.passes import common as passes

from pytest_sdperf.core import ladder
from pytest_sdperf.fusing.fusion_graph import path_of
from pytest_sdperf.fusing.lowering import lower
from pytest_sdperf.fusing.native import fuse
from pytest_sdperf.fusing.optimizations import LADDER

OPTIMIZATIONS = {optimization.name: optimization for optimization in LADDER}
LAST = LADDER[-1].name

# How far an optimized build may be from float64, in errors of the plain graph in the same type.
ALLOWED = 2.0

SIZES = (
    {"batch": 2, "latent_height": 16, "latent_width": 16},
    {"batch": 3, "latent_height": 8, "latent_width": 24},
)


def fusions_of(selection):
    names = ladder.optimizations(selection, tuple(OPTIMIZATIONS))
    return names, [fusion for name in names for fusion in OPTIMIZATIONS[name].fusions()]


def build(model, selection, *, dtype=None):
    """Fuse a model in place; in the type of the selection, unless another one is named."""
    names, fusions = fusions_of(selection)
    return fuse(model, fusions, to_float16=dtype == "float16" if dtype else "fp16" in names)


def counts(model):
    """How many nodes there are, by operator; those of ONNX itself without a domain."""
    return collections.Counter(
        f"{node.domain}::{node.op_type}" if node.domain else node.op_type for node in model.graph.all_nodes()
    )


def draw_inputs(model, sizes, seed=0):
    random = np.random.default_rng(seed)
    inputs = {}
    for value in model.graph.inputs:
        shape = [size if isinstance(size, int) else sizes[size.value] for size in value.shape]
        if value.dtype in (ir.DataType.INT64, ir.DataType.INT32):
            array = random.integers(0, 900, shape)
        elif "timestep" in value.name:
            array = np.full(shape, 501)
        else:
            array = random.standard_normal(shape)
        inputs[value.name] = array.astype(value.dtype.numpy())
    return inputs


class Lowered:
    """A model that is lowered in place and loaded, to be computed node by node as it is written."""

    def __init__(self, model):
        lower(model)
        self._types = {value.name: value.dtype.numpy() for value in model.graph.inputs}
        self._session = session_of(model, optimized=False)

    def __call__(self, inputs):
        typed = {name: inputs[name].astype(kind) for name, kind in self._types.items()}
        return self._session.run(None, typed)


def run(model, inputs):
    """Lower a model in place and return what it computes."""
    return Lowered(model)(inputs)


@functools.lru_cache(maxsize=2)  # a test of another size of the same graph comes next
def loaded(name, selection, dtype, path=""):
    """A graph of the zoo with weights, fused with a selection (None: as it is), ready to be called at any size."""
    model = load(name, path)
    if selection is not None:
        build(model, selection, dtype=dtype)
    return Lowered(model)


def cut(model, path):
    """Leave of a model what is computed up to the last node of a module, in place."""
    last = [node for node in model.graph if path_of(node).startswith(path)][-1]
    model.graph.outputs[:] = last.outputs
    passes.RemoveUnusedNodesPass()(model)
    return model


@functools.lru_cache(maxsize=1)  # the tests of one graph follow each other
def weights_of(name):
    """The weights of a graph of the zoo by name, each drawn when it is first read."""
    initializers = graph_zoo.load(name).graph.initializers
    return {weight: value.const_value for weight, value in initializers.items()}


def load(name, path=""):
    """A graph of the zoo with weights, or the part of it that ends with a module."""
    model = graph_zoo.load_structure(name)
    for weight, value in model.graph.initializers.items():
        value.const_value = weights_of(name)[weight]
    return cut(model, path) if path else model


def error(obtained, expected):
    """The largest relative error (L2) of all outputs."""
    for one, other in zip(obtained, expected, strict=True):
        assert one.shape == other.shape
        assert np.isfinite(one).all()
    return max(
        float(np.linalg.norm(one.astype(np.float64) - other) / np.linalg.norm(other))
        for one, other in zip(obtained, expected, strict=True)
    )


@functools.cache
def reference(name, size=0, path=""):
    """Inputs of a graph and its outputs in float64."""
    torch.set_num_threads(1)
    model = load(name, path)
    inputs = draw_inputs(model, SIZES[size], seed=size)
    return inputs, exact.evaluate(model, inputs)


@functools.cache
def plain(name, dtype, size=0, path=""):
    """What the graph computes in a type before anything is fused: the plain run."""
    inputs, _ = reference(name, size, path)
    if dtype == "float32":
        return loaded(name, None, dtype, path)(inputs)
    model = load(name, path)
    # onnxruntime has few kernels for float16 on a CPU, and rounds nothing between two nodes without one.
    fuse(model, (), to_float16=True)
    return exact.evaluate(model, inputs, rounded=True)


def tolerance(name, dtype, size=0, path=""):
    """What an optimized build may be off by: a multiple of what rounding does to the plain graph in the same type.

    Nothing is typed in: a graph of more sums, or of longer ones, is rounded more.
    """
    _, expected = reference(name, size, path)
    return ALLOWED * error(plain(name, dtype, size, path), expected)
