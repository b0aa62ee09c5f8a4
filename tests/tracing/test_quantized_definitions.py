"""What operators on quantized numbers mean, against the kernels of ONNX Runtime, in every form that they have."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper
from test_definitions import EXAMPLES, all_of_both, both, of_definition

BYTES = st.sampled_from([np.int8, np.uint8])
SEEDS = st.integers(0, 1000)
# Operator set -> forms of QuantizeLinear that it has.
FORMS = {10: ["tensor"], 13: ["tensor", "axis"], 19: ["tensor", "axis"], 21: ["tensor", "axis", "blocks"]}


def drawn(seed, kind, shape):
    """Integers of the whole range of their type."""
    range_of = np.iinfo(kind)
    return np.random.default_rng(seed).integers(range_of.min, range_of.max, shape, dtype=kind, endpoint=True)


def scales(seed, shape):
    return np.random.default_rng(seed).uniform(0.01, 0.1, shape).astype(np.float32)


def check_steps(found, expected):
    """Equal, but for numbers that lie in the middle between two but for the rounding of float32."""
    found = found.numpy()
    assert found.dtype == expected.dtype
    apart = np.abs(found.astype(np.int64) - expected.astype(np.int64))
    assert apart.max(initial=0) <= 1
    assert np.count_nonzero(apart) <= 0.02 * apart.size


@EXAMPLES
@given(
    opset=st.sampled_from(list(FORMS)), place=st.integers(0, 2), kind=BYTES, zero=st.booleans(),
    axis=st.integers(-3, 2), seed=SEEDS,
)  # fmt: skip
def test_quantize(*, opset, place, kind, zero, axis, seed):
    form = FORMS[opset][min(place, len(FORMS[opset]) - 1)]
    x = np.random.default_rng(seed).standard_normal((4, 6, 8)).astype(np.float32) * 5
    blocks = [size // 2 if at == axis % 3 else size for at, size in enumerate(x.shape)]
    shape = {"tensor": (), "axis": (x.shape[axis],), "blocks": tuple(blocks)}[form]
    kind = kind if zero else np.uint8  # which is what stands for none
    says = {"tensor": {}, "axis": {"axis": axis}, "blocks": {"axis": axis, "block_size": 2}}[form]
    output = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    weights = {"s": scales(seed, shape), "z": drawn(seed, kind, shape) if zero else None}
    expected, found = both("QuantizeLinear", {"x": x}, weights, opset=opset, output=output, **says)
    check_steps(found, expected)


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16, np.uint16])
@pytest.mark.parametrize("by_zero", [True, False])
def test_quantize_rounds_to_even_and_ends_where_its_type_does(kind, by_zero):
    x = np.array([-0.5, 0.5, 1.5, 2.5, 3.5, -1.5, 1e6, -1e6], np.float32)
    output = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    weights = {"s": np.array(1, np.float32), "z": np.array(3, kind) if by_zero else None}
    says = {} if by_zero else {"output_dtype": output}
    expected, found = both("QuantizeLinear", {"x": x}, weights, output=output, **says)
    assert found.numpy().dtype == expected.dtype
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("form", ["zero", "output_dtype"])
def test_a_type_that_torch_has_not_is_no_definition(form):
    zero = np.array(1, ml_dtypes.int4) if form == "zero" else None
    says = {} if form == "zero" else {"output_dtype": TensorProto.INT4}
    weights = {"s": np.array(1, np.float32), "z": zero}
    x, kinds = {"x": np.ones(4, np.float32)}, [TensorProto.INT4]
    _, found = all_of_both("QuantizeLinear", x, weights, outputs=kinds, by="reference", **says)
    assert found == [None]


def test_numbers_of_8_bits_that_have_fractions_keep_them():
    x = np.array([0.25, -1.5, 2.75, 0], ml_dtypes.float8_e4m3fn)
    weights = {"x": x, "s": np.array(0.5, np.float32)}
    expected, found = both("DequantizeLinear", {}, weights)
    np.testing.assert_allclose(found.numpy(), expected)
    assert found.tolist() == [0.125, -0.75, 1.375, 0]


@EXAMPLES
@given(seed=SEEDS, low=st.sampled_from([-1, 0, 0.5]), width=st.sampled_from([0.0, 1.0, 7.0]))
def test_quantize_dynamically(seed, low, width):
    """Ranges on both sides of 0, that end there, and beside it; one that is a single number, 0 included."""
    x = (low + width * np.random.default_rng(seed).random((5, 7))).astype(np.float32)
    outputs = [TensorProto.UINT8, TensorProto.FLOAT, TensorProto.UINT8]
    expected, found = all_of_both("DynamicQuantizeLinear", {"x": x}, {}, outputs=outputs)
    check_steps(found[0], expected[0])
    np.testing.assert_allclose(found[1].numpy(), expected[1], rtol=1e-6)
    assert abs(int(found[2]) - int(expected[2])) <= 1


@EXAMPLES
@given(
    a_kind=BYTES, b_kind=BYTES, a_zero=st.sampled_from(["none", "tensor", "rows"]),
    b_zero=st.sampled_from(["none", "tensor", "columns"]), batch=st.booleans(), seed=SEEDS,
)  # fmt: skip
def test_matmul_integer(*, a_kind, b_kind, a_zero, b_zero, batch, seed):
    a, b = drawn(seed, a_kind, (2, 3, 5) if batch else (3, 5)), drawn(seed + 1, b_kind, (5, 4))
    zero_of_a = {"none": None, "tensor": (), "rows": (2, 3, 1) if batch else (3,)}[a_zero]
    zero_of_b = {"none": None, "tensor": (), "columns": (4,)}[b_zero]
    weights = {
        "b": b,
        "az": None if zero_of_a is None else np.asarray(drawn(seed, a_kind, zero_of_a)),
        "bz": None if zero_of_b is None else np.asarray(drawn(seed, b_kind, zero_of_b)),
    }
    if a_zero == "rows":  # which neither the runtime nor the reference computes
        own = weights["az"].astype(np.int32).reshape(*a.shape[:-1], 1)
        other = 0 if weights["bz"] is None else weights["bz"].astype(np.int32)
        expected = (a.astype(np.int32) - own) @ (b.astype(np.int32) - other)
        (found,) = of_definition("MatMulInteger", {"a": a}, weights, outputs=[TensorProto.INT32])
    else:
        expected, found = both("MatMulInteger", {"a": a}, weights, output=TensorProto.INT32)
    assert found.numpy().dtype == expected.dtype
    np.testing.assert_array_equal(found.numpy(), expected)


CONVOLVED = st.sampled_from(
    [{}, {"pads": [1, 0, 2, 1]}, {"strides": [2, 1], "pads": [1, 1, 1, 1]}, {"dilations": [2, 1]}, {"group": 2}]
)


@EXAMPLES
@given(says=CONVOLVED, w_kind=BYTES, zeros=st.sampled_from(["none", "image", "both"]), seed=SEEDS)
def test_conv_integer(says, w_kind, zeros, seed):
    x, w = drawn(seed, np.uint8, (2, 4, 7, 6)), drawn(seed + 1, w_kind, (6, 4 // says.get("group", 1), 3, 2))
    weights = {
        "w": w,
        "xz": None if zeros == "none" else np.array(7, np.uint8),
        "wz": np.array(9, w_kind) if zeros == "both" else None,
    }
    expected, found = both("ConvInteger", {"x": x}, weights, output=TensorProto.INT32, **says)
    np.testing.assert_array_equal(found.numpy(), expected)


@EXAMPLES
@given(kind=BYTES, columns=st.booleans(), seed=SEEDS)
def test_qlinear_matmul(kind, columns, seed):
    shape = (4,) if columns else ()
    weights = {
        "as": scales(seed, ()), "az": np.asarray(drawn(seed, kind, ())), "b": drawn(seed + 1, kind, (5, 4)),
        "bs": scales(seed, shape), "bz": np.full(shape, 2, kind), "ys": np.array(1.5, np.float32),
        "yz": np.asarray(drawn(seed, kind, ())),
    }  # fmt: skip
    output = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    expected, found = both("QLinearMatMul", {"a": drawn(seed, kind, (2, 3, 5))}, weights, output=output)
    check_steps(found, expected)


@EXAMPLES
@given(says=CONVOLVED, kind=BYTES, channels=st.booleans(), bias=st.booleans(), seed=SEEDS)
def test_qlinear_conv(*, says, kind, channels, bias, seed):
    shape = (6,) if channels else ()
    weights = {
        "xs": scales(seed, ()), "xz": np.array(5, kind),
        "w": drawn(seed + 1, np.int8, (6, 4 // says.get("group", 1), 3, 2)),
        "ws": scales(seed, shape), "wz": np.zeros(shape, np.int8), "ys": np.array(2, np.float32),
        "yz": np.array(3, kind), "b": drawn(seed, np.int16, 6).astype(np.int32) if bias else None,
    }  # fmt: skip
    output = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    expected, found = both("QLinearConv", {"x": drawn(seed, kind, (2, 4, 7, 6))}, weights, output=output, **says)
    check_steps(found, expected)


@pytest.mark.parametrize("op_type", ["Conv", "ConvInteger"])
def test_padding_that_the_operator_chooses_is_no_definition(op_type):
    kind = np.float32 if op_type == "Conv" else np.uint8
    output = TensorProto.FLOAT if op_type == "Conv" else TensorProto.INT32
    x, w = np.ones((1, 1, 4, 4), kind), np.ones((1, 1, 3, 3), kind)
    _, found = both(op_type, {"x": x}, {"w": w}, output=output, auto_pad="SAME_UPPER")
    assert found is None
    expected, found = both(op_type, {"x": x}, {"w": w}, output=output, auto_pad="VALID")
    np.testing.assert_array_equal(found.numpy(), expected)
