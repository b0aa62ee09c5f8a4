"""Random numbers in place of weights are as large and as spread as these, and none of these is left."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from pytest_sdperf.tracing.redrawn import numbers_like, redraw, redraw_weights

RANDOM = np.random.default_rng(1)
WEIGHT = (RANDOM.standard_normal((32, 16)) * 0.2 + 1).astype(np.float32)


def drawn(array, seed=0):
    return numbers_like(array, np.random.default_rng(seed))


def test_mean_and_deviation_stay_and_numbers_do_not():
    other = drawn(WEIGHT)
    assert (other.shape, other.dtype) == (WEIGHT.shape, WEIGHT.dtype)
    assert other.mean() == pytest.approx(1, abs=0.05)
    assert other.std() == pytest.approx(0.2, rel=0.2)
    assert abs(np.corrcoef(WEIGHT.reshape(-1), other.reshape(-1))[0, 1]) < 0.2


@pytest.mark.parametrize(
    "array",
    [
        np.array(1e-5, np.float32),
        np.array([1.0, 1.0, 2.0, 2.0], np.float32),
        np.triu(np.full((8, 8), np.finfo(np.float32).min, np.float32), 1),
        np.array([0.0, -np.inf, 0.0], np.float16),
        np.arange(77),
        np.zeros((0, 4), np.float32),
    ],
    ids=["epsilon", "scales of a resize", "mask", "infinite mask", "positions", "nothing"],
)
def test_what_is_no_weight_stays(array):
    assert np.array_equal(drawn(array), array)


SHAPES = st.tuples(st.integers(1, 6), st.integers(1, 6))


@given(arrays.arrays(np.float32, SHAPES, elements=st.floats(-100, 100, width=32)))
def test_whatever_comes_has_its_shape_and_type_again(array):
    other = drawn(array)
    assert (other.shape, other.dtype) == (array.shape, array.dtype)
    assert np.isfinite(other).all()


def graph_with(weights, constant):
    x = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([4, 32]))
    tape = ir.tape.Tape()
    values = [ir.Value(name=name, const_value=ir.tensor(array, name=name)) for name, array in weights.items()]
    product = tape.op("MatMul", [x, values[0]])
    added = tape.op("Constant", [], attributes={"value": ir.AttrTensor("value", ir.tensor(constant, name="constant"))})
    result = tape.op("Mul", [tape.op("Add", [product, added]), values[1]])
    result.name, result.type, result.shape = "y", ir.TensorType(ir.DataType.FLOAT), ir.Shape([4, 16])
    return ir.Model(
        ir.Graph([x], [result], nodes=tape.nodes, initializers=values, opset_imports={"": 18}, name="graph"),
        ir_version=10,
    )


def test_a_graph_keeps_its_nodes_and_none_of_its_weights(tmp_path):
    source, weights = tmp_path / "model.onnx", {"w": WEIGHT, "half": np.array(0.5, np.float32)}
    constant = RANDOM.standard_normal(16).astype(np.float32)
    ir.save(graph_with(weights, constant), source, external_data="model.onnx.data")
    models = []
    for name, seed in (("one", 0), ("same", 0), ("other", 1)):
        (tmp_path / name).mkdir()
        redraw(source, tmp_path / name / "model.onnx", seed=seed)
        models.append(ir.load(tmp_path / name / "model.onnx"))
    one, same, other = ({name: v.const_value.numpy() for name, v in m.graph.initializers.items()} for m in models)
    assert [node.op_type for node in models[0].graph] == ["MatMul", "Constant", "Add", "Mul"]
    assert one["half"] == 0.5
    assert not np.isin(one["w"], WEIGHT).any()
    assert np.array_equal(one["w"], same["w"])
    assert not np.isin(one["w"], other["w"]).any()
    kept = next(node for node in models[0].graph if node.op_type == "Constant").attributes["value"].as_tensor().numpy()
    assert not np.isin(kept, constant).any()


def test_weights_keep_their_names_and_nothing_else(tmp_path):
    save, load = safetensors.numpy.save_file, safetensors.numpy.load_file
    save({"w": WEIGHT, "positions": np.arange(4)}, tmp_path / "weights.safetensors")
    redraw_weights(tmp_path / "weights.safetensors", tmp_path / "other.safetensors", seed=0)
    other = load(tmp_path / "other.safetensors")
    assert other["positions"].tolist() == [0, 1, 2, 3]
    assert not np.isin(other["w"], WEIGHT).any()
