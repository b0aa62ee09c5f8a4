"""Whatever valid graph comes in: a valid one that computes the same comes out, or a refusal that names a node."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from by_hand import make
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from onnxruntime import quantization
from onnxruntime.capi import onnxruntime_pybind11_state as state
from random_graphs import ROUNDING, graphs
from tiny_model import make_catalog

from pytest_sdperf.core.errors import BuildError
from pytest_sdperf.fusing import node_types, tidy
from pytest_sdperf.tasks import TaskContext, fuse_native, import_graph, lower
from pytest_sdperf.tasks._fuse_graph import FuseGraph
from pytest_sdperf.tasks.sampling.phases import Silent

CATALOG = make_catalog()
LADDER = list(CATALOG.ladder)
SELECTIONS = {"fp32": LADDER[:1], "fp16": LADDER[:2], "last": LADDER, "last-fp16": [n for n in LADDER if n != "fp16"]}
KINDS = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64}
# In units of the largest number: float32, and a few dozen operators in float16.
CLOSE = {"float32": 1e-4, "float16": 0.02}
EXAMPLES = settings(max_examples=60, suppress_health_check=list(HealthCheck))


def session_of(model):
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def call(session, inputs):
    typed = {value.name: inputs[value.name].astype(KINDS[value.type]) for value in session.get_inputs()}
    return [np.asarray(array, np.float64) for array in session.run(None, typed)]


def drawn(session, *, noise=0.0):
    """Inputs of a model, at an open size of 2; each number off by a random part of `noise`."""
    random, inputs = np.random.default_rng(0), {}
    for value in session.get_inputs():
        array = random.uniform(-1, 1, [size if isinstance(size, int) else 2 for size in value.shape])
        inputs[value.name] = array * (1 + noise * random.uniform(-1, 1, array.shape))
    return inputs


def error(found, expected, *, rounding):
    """In units of the largest number; where numbers are rounded to integers some may come out as their neighbours."""
    if not np.isfinite(expected).all():
        return 0.0
    return float((np.median if rounding else np.max)(np.abs(found - expected)) / max(np.abs(expected).max(), 1))


def context(folder, name):
    (folder / name).mkdir()
    return TaskContext(folder / name, CATALOG, Silent(), lambda text: None)


def fuse(folder, model, selection):
    """Write a model, optimize it and lower the result; return that."""
    onnx.save(model, folder / "given.onnx")
    optimizations = tuple(SELECTIONS[selection])
    dtype = "float16" if "fp16" in optimizations else "float32"
    fuse_native.run(FuseGraph(folder / "given.onnx", "unet", optimizations, dtype), context(folder, "fused"))
    lower.run(lower.LowerGraph(folder / "fused" / "model.onnx", "unet"), context(folder, "lowered"))
    return folder / "lowered" / "model.onnx"


def usable(model):
    """A session of what was given; a graph that the runtime has no kernels for is no example."""
    onnx.checker.check_model(model, full_check=True)
    try:
        return session_of(model.SerializeToString())
    except state.NotImplemented:
        return assume(condition=False)


def optimized(model, selection, inputs):
    """What a model computes when it is optimized; None where it is refused because of a node that holds a graph."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            return call(session_of(str(fuse(Path(folder), model, selection))), inputs)
        except BuildError as error:
            text = str(error)
    assert re.search(r"(If|Loop) '[\w/.]+' holds a graph", text), text
    return None


@EXAMPLES
@given(graphs(), st.sampled_from(list(SELECTIONS)))
def test_a_graph_is_optimized_rightly_or_refused_with_the_node(made, selection):
    model, kinds = made
    given_session = usable(model)
    expected = call(given_session, drawn(given_session))
    found = optimized(model, selection, drawn(given_session))
    if found is None:
        assert selection in ("fp16", "last")
        return
    own = any(tensor.data_type == onnx.TensorProto.FLOAT16 for tensor in model.graph.initializer) or "Cast" in kinds
    close = CLOSE["float16" if own or selection in ("fp16", "last") else "float32"]
    for index, (one, other) in enumerate(zip(found, expected, strict=True)):
        assert one.shape == other.shape
        # What a norm of equal numbers makes of rounding is no fault of anybody.
        moved = call(given_session, drawn(given_session, noise=2.0**-9))[index]
        shaken = error(moved, other, rounding=False)
        assert error(one, other, rounding=bool(kinds & ROUNDING)) <= close + 8 * shaken


@EXAMPLES
@given(graphs())
def test_types_that_nobody_wrote_down_are_those_of_onnx(made):
    model, _ = made
    del model.graph.value_info[:]
    wanted = {
        value.name: value.type.tensor_type.elem_type
        for value in onnx.shape_inference.infer_shapes(model).graph.value_info
    }
    read = ir.from_proto(model)
    tidy.unify(read)
    node_types.record(read.graph)
    found = {value.name: value.dtype for node in read.graph for value in node.outputs}
    known = {name for name, dtype in found.items() if dtype is not None and wanted.get(name)}
    assert {name: int(found[name]) for name in known} == {name: wanted[name] for name in known}


@pytest.mark.parametrize("opset", range(13, onnx.defs.onnx_opset_version() + 1))
def test_types_of_quantized_values_are_known_where_nobody_wrote_them_down(opset):
    lines = {
        "q": "QuantizeLinear(x, step)",
        "qz": "QuantizeLinear(x, step, zero)",
        "dz": "DequantizeLinear(qz, step, zero)",
        "d, scale, point": "DynamicQuantizeLinear(x)",
        "y": "DequantizeLinear(d, scale, point)",
    }
    weights = {"step": np.float32(0.1), "zero": np.int8(3)}
    model = ir.to_proto(make(lines, "float[2, 8] x", "float[2, 8] y", weights, opset=opset))
    del model.graph.value_info[:]
    read = ir.from_proto(model)
    node_types.record(read.graph)
    kinds = {value.name: value.dtype for node in read.graph for value in node.outputs}
    wide, unsigned, signed = ir.DataType.FLOAT, ir.DataType.UINT8, ir.DataType.INT8
    assert kinds == {
        "q": unsigned, "qz": signed, "dz": wide, "d": unsigned, "scale": wide, "point": unsigned, "y": wide
    }  # fmt: skip


@EXAMPLES
@given(graphs(), st.sampled_from(["x", "v1", "y", "w0"]))
def test_a_graph_is_taken_as_it_is_whatever_its_values_are_called(made, name):
    model, _ = made
    given_session = usable(model)
    expected = call(given_session, drawn(given_session))
    initialized = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in initialized]
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        onnx.save(model, folder / "given.onnx")
        outputs = enumerate(model.graph.output)
        interface = import_graph.Interface(
            tuple(import_graph.Port(value.name, "sample") for value in inputs),
            tuple(import_graph.Port(value.name, f"{name}{'_' * index}") for index, value in outputs),
        )
        request = import_graph.ImportGraph(folder / "given.onnx", "unet", (), interface)
        import_graph.run(request, context(folder, "out"))
        session = session_of(str(folder / "out" / "model.onnx"))
        given_inputs = drawn(given_session)
        found = call(
            session,
            {
                **given_inputs,
                **{
                    value.name: array for value, array in zip(session.get_inputs(), given_inputs.values(), strict=False)
                },
            },
        )
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def convolved(opset):
    """Convolutions of an image and a product behind them, in floating point."""
    sizes = {"k": (8, 4, 3, 3), "b": (8,), "k2": (8, 8, 3, 3), "w": (8, 8), "c": (8,)}
    random = np.random.default_rng(0)
    weights = {name: random.uniform(-0.5, 0.5, size).astype(np.float32) for name, size in sizes.items()}
    nodes = [
        helper.make_node("Conv", ["x", "k", "b"], ["first"], name="first", pads=[1] * 4),
        helper.make_node("Sigmoid", ["first"], ["gate"], name="gate"),
        helper.make_node("Mul", ["first", "gate"], ["gated"], name="gated"),
        helper.make_node("Conv", ["gated", "k2"], ["second"], name="second", pads=[1] * 4),
        helper.make_node("Reshape", ["second", "flat"], ["places"], name="places"),
        helper.make_node("Transpose", ["places"], ["sequence"], name="sequence", perm=[0, 2, 1]),
        helper.make_node("MatMul", ["sequence", "w"], ["product"], name="product"),
        helper.make_node("Add", ["product", "c"], ["y"], name="y"),
    ]
    tensors = {**weights, "flat": np.array([0, 0, -1])}
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "g", [value("x", TensorProto.FLOAT, [2, 4, 8, 8])], [value("y", TensorProto.FLOAT, [2, 64, 8])],
        [numpy_helper.from_array(array, name) for name, array in tensors.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


class Examples(quantization.CalibrationDataReader):
    """What the quantizer finds the ranges of values with."""

    def __init__(self):
        random = np.random.default_rng(1)
        self._left = [{"x": random.uniform(-1, 1, (2, 4, 8, 8)).astype(np.float32)} for _ in range(2)]

    def get_next(self):
        return self._left.pop() if self._left else None


def quantize_to(format):  # noqa: A002 - the quantizer's own name for it
    return lambda given, to: quantization.quantize_static(given, to, Examples(), quant_format=format, per_channel=True)


QUANTIZERS = {
    "dynamic": quantization.quantize_dynamic,
    "QDQ": quantize_to(quantization.QuantFormat.QDQ),
    "QOperator": quantize_to(quantization.QuantFormat.QOperator),
}


def save_optimized(model, path):
    """Save a model as ONNX Runtime leaves it: with operators of its own, and with every attribute written down."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(path)
    onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return onnx.load(path)


@pytest.mark.parametrize("saved", [False, True], ids=["as quantized", "saved by the runtime"])
@pytest.mark.parametrize("quantizer", QUANTIZERS)
@pytest.mark.parametrize("opset", [17, 18, 21, 23])
def test_what_the_quantizer_of_onnxruntime_makes_is_optimized_rightly(tmp_path, opset, quantizer, saved):
    onnx.save(convolved(opset), tmp_path / "plain.onnx")
    QUANTIZERS[quantizer](tmp_path / "plain.onnx", tmp_path / "quantized.onnx")
    model = onnx.load(tmp_path / "quantized.onnx")
    if saved:
        model = save_optimized(model, tmp_path / "saved.onnx")
    del model.graph.value_info[:]
    session = session_of(model.SerializeToString())
    inputs = drawn(session)
    (expected,) = call(session, inputs)
    for selection in ("fp16", "last", "last-fp16"):
        (found,) = optimized(model, selection, inputs)
        assert found.shape == expected.shape
        assert error(found, expected, rounding=True) <= CLOSE["float32" if selection == "last-fp16" else "float16"]
