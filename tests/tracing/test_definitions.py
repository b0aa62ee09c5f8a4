"""What operators mean, against the kernels of ONNX Runtime, in every form that they have."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from pytest_sdperf.fusing.optimizations import LADDER
from pytest_sdperf.tracing.computer import Computer, definition_of

COORDINATES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric")
NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
EXAMPLES = settings(max_examples=60, suppress_health_check=list(HealthCheck))


def both(op_type, inputs, weights, *, opset=21, output=TensorProto.FLOAT, **attributes):
    """What the runtime makes of an operator, and what its definition does; the latter is None for an unknown form."""
    (expected,), (found,) = all_of_both(op_type, inputs, weights, opset=opset, outputs=[output], **attributes)
    return expected, found


def all_of_both(op_type, inputs, weights, *, by="runtime", **says):
    """Likewise every output; by the reference of ONNX where the runtime has no kernel."""
    model, found = of_model(op_type, inputs, weights, **says), of_definition(op_type, inputs, weights, **says)
    if by == "reference":
        return ReferenceEvaluator(model).run(None, inputs), found
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, inputs), found


def of_model(op_type, inputs, weights, *, outputs, opset=21, **attributes):
    arrays = {**inputs, **weights}
    names = ["" if array is None else name for name, array in arrays.items()]
    results = [f"y{index}" for index in range(len(outputs))]
    node = helper.make_node(op_type, names, results, **attributes)
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in inputs.items()
    ]
    said = [helper.make_tensor_value_info(name, kind, None) for name, kind in zip(results, outputs, strict=True)]
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items() if array is not None]
    graph = helper.make_graph([node], "g", infos, said, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def of_definition(op_type, inputs, weights, **says):
    """What its definition makes of an operator."""
    read = ir.from_proto(of_model(op_type, inputs, weights, **says)).graph
    computer = Computer(read, wide=torch.float64)
    placed = [None if array is None else computer.placed(array) for array in {**inputs, **weights}.values()]
    return computer.outputs(next(iter(read)), placed)


FORMS = st.fixed_dictionaries(
    {
        "mode": st.sampled_from(["nearest", "linear", "cubic"]),
        "coordinate_transformation_mode": st.sampled_from(COORDINATES),
        "nearest_mode": st.sampled_from(NEAREST),
        "exclude_outside": st.sampled_from([0, 1]),
    }
)


@EXAMPLES
@given(FORMS, st.tuples(st.integers(2, 6), st.integers(2, 6)), st.sampled_from([0.5, 1.0, 1.5, 2.0, 2.6, 3, 5]))
def test_resize(says, size, wanted):
    """A fraction is a factor of both sides, a whole number the size of the first."""
    x = np.random.default_rng(0).standard_normal((1, 2, *size)).astype(np.float32)
    if isinstance(wanted, float):
        weights = {"roi": None, "scales": np.array([1, 1, wanted, wanted], np.float32), "sizes": None}
    else:
        weights = {"roi": None, "scales": None, "sizes": np.array([1, 2, wanted, 2 * size[1]])}
    if says["mode"] != "cubic":
        says = {**says, "exclude_outside": 0}
    # The runtime finds places in float32: which neighbour a place between two has is told by its rounding.
    exact = wanted in (0.5, 1.0, 2.0) and says["coordinate_transformation_mode"] != "align_corners"
    assume(says["mode"] != "nearest" or exact)
    expected, found = both("Resize", {"x": x}, weights, **says)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-4)


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32])
@pytest.mark.parametrize("zero", [True, False])
@pytest.mark.parametrize("form", ["tensor", "axis", "blocks"])
def test_dequantize(kind, zero, form):
    if form == "blocks" and kind is np.int32:
        kind = np.int16
    random = np.random.default_rng(0)
    x = random.integers(0, 100, (4, 6, 3)).astype(kind)
    shape = {"tensor": (), "axis": (6,), "blocks": (4, 3, 3)}[form]
    scale = random.uniform(0.5, 2, shape).astype(np.float32)
    zeros = np.full(shape, 0 if kind is np.int32 else 7, kind) if zero else None
    says = {"tensor": {}, "axis": {"axis": -2}, "blocks": {"axis": 1, "block_size": 2}}[form]
    expected, found = both("DequantizeLinear", {"x": x}, {"s": scale, "z": zeros}, **says)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("kind", [np.float32, np.int64])
@pytest.mark.parametrize("shapes", [((3, 4), (3, 4)), ((3, 1), (4,)), ((), (2, 3))])
@pytest.mark.parametrize("op_type", ["Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Min"])
def test_comparisons(op_type, shapes, kind):
    random = np.random.default_rng(0)
    a, b = (random.integers(0, 3, shape).astype(kind) for shape in shapes)
    output = helper.np_dtype_to_tensor_dtype(np.dtype(kind)) if op_type in ("Max", "Min") else TensorProto.BOOL
    expected, found = both(op_type, {"a": a, "b": b}, {}, output=output)
    assert found.numpy().dtype.kind == expected.dtype.kind
    np.testing.assert_array_equal(found.numpy(), expected)


@pytest.mark.parametrize("op_type", ["And", "Or", "Not"])
def test_logic(op_type):
    a, b = np.array([[True], [False]]), np.array([True, False])
    inputs = {"a": a} if op_type == "Not" else {"a": a, "b": b}
    expected, found = both(op_type, inputs, {}, output=TensorProto.BOOL)
    np.testing.assert_array_equal(found.numpy(), expected)


@pytest.mark.parametrize("op_type", ["Ceil", "Floor"])
def test_whole_numbers(op_type):
    x = np.array([-1.5, -1.0, -0.2, 0.0, 0.2, 1.0, 1.5], np.float32)
    expected, found = both(op_type, {"x": x}, {})
    np.testing.assert_array_equal(found.numpy(), expected)


@pytest.mark.parametrize(("start", "end", "step"), [(0, 9, 1), (1, -1, 2), (-1, -99, -1), (4, 0, -2), (3, 3, 1)])
def test_slice(start, end, step):
    x = np.arange(30, dtype=np.float32).reshape(5, 6)
    one = {name: np.array([said, 1]) for name, said in (("starts", start), ("ends", end))}
    expected, found = both("Slice", {"x": x}, {**one, "axes": np.array([0, 1]), "steps": np.array([step, 1])})
    expected_last, found_last = both("Slice", {"x": x}, {"starts": one["starts"][:1], "ends": one["ends"][:1]})
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(found_last, expected_last)


@pytest.mark.parametrize("axis", [None, 0, 1, 2, 3, -1, -3])
def test_flatten(axis):
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    expected, found = both("Flatten", {"x": x}, {}, **({} if axis is None else {"axis": axis}))
    np.testing.assert_array_equal(found.numpy(), expected)


def test_numbers_of_four_bits_are_read():
    import ml_dtypes

    value = ir.val("w", const_value=ir.tensor(np.array([1, -2, 7], ml_dtypes.int4), name="w"))
    computer = Computer(ir.Graph([], [], nodes=[]), wide=torch.float64)
    assert computer.weight(value).tolist() == [1, -2, 7]


ACTIVATIONS = {
    "": (), "Clip": (-0.5, 0.5), "HardSigmoid": (0.3, 0.4), "LeakyRelu": (0.1,), "Relu": (), "Sigmoid": (), "Tanh": (),
}  # fmt: skip


@pytest.mark.parametrize("added", [True, False])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_fused_conv(activation, added):
    random = np.random.default_rng(0)
    x, w, b, z = (random.standard_normal(s).astype(np.float32) for s in ((2, 4, 7, 5), (6, 4, 3, 3), 6, (2, 6, 4, 3)))
    weights = {"w": w, "b": b, **({"z": z} if added else {})}
    says = {"pads": [1, 1, 1, 1], "strides": [2, 2], "domain": "com.microsoft"}
    if activation:
        says |= {"activation": activation, "activation_params": ACTIVATIONS[activation] or None}
    expected, found = both("FusedConv", {"x": x}, weights, **says)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-5)


@pytest.mark.parametrize("turned", [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_fused_matmul(turned):
    random = np.random.default_rng(0)
    a, b = random.standard_normal((2, 3, 4)).astype(np.float32), random.standard_normal((2, 4, 5)).astype(np.float32)
    a, b = (one.swapaxes(1, 2) if turn else one for one, turn in zip((a, b), turned, strict=True))
    says = {"alpha": 0.3, "transA": turned[0], "transB": turned[1], "domain": "com.microsoft"}
    expected, found = both("FusedMatMul", {"a": a}, {"b": b}, **says)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-5)
    assert of_definition("FusedMatMul", {"a": a}, {"b": b}, outputs=[TensorProto.FLOAT], **says, transBatchA=1) == [
        None
    ]


def test_every_operator_of_the_ladder_has_a_definition():
    operators = {op.partition("[")[0] for optimization in LADDER for op in optimization.operators}
    assert "com.microsoft::NhwcConv" in operators
    for name in operators:
        domain, _, op_type = name.partition("::")
        assert definition_of(ir.node(op_type, [], domain=domain)) is not None, name
