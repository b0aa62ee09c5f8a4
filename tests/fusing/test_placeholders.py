from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx_ir.passes.common import DeduplicateInitializersPass

from pytest_sdperf.core.errors import BuildError
from pytest_sdperf.fusing.placeholders import clear, fill
from pytest_sdperf.fusing.weightless import is_missing


class Unreadable:
    """A tensor of an exporter whose module holds nothing."""

    def __init__(self, shape, dtype=ir.DataType.FLOAT):
        self.name, self.shape, self.dtype, self.size = "", ir.Shape(shape), dtype, int(np.prod(shape))
        self.metadata_props, self.doc_string = {}, None

    def numpy(self):
        raise AssertionError("read")


def model_of(tensors):
    values = {
        name: ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=tensor.shape, const_value=tensor)
        for name, tensor in tensors.items()
    }
    nodes = [ir.node("Identity", [value]) for value in values.values()]
    outputs = [node.outputs[0] for node in nodes]
    graph = ir.Graph([], outputs, nodes=nodes, initializers=list(values.values()), opset_imports={"": 18}, name="g")
    return ir.Model(graph, ir_version=10)


def contents(model, name):
    return model.graph.initializers[name].const_value.numpy()


def test_placeholders_take_no_memory_and_are_no_numbers():
    model = model_of({"w": Unreadable((1 << 20, 1 << 20))})
    fill(model.graph, ["w"])
    array = contents(model, "w")
    assert (array.shape, array.dtype, array.strides) == ((1 << 20, 1 << 20), np.float32, (0, 0))
    assert np.isnan(array[0, 0])


def test_equal_shapes_are_not_taken_for_equal_weights():
    names = [f"b{i}" for i in range(2000)]
    model = model_of({name: Unreadable((4,)) for name in names})
    fill(model.graph, names)
    assert len({contents(model, name).tobytes() for name in names}) == 2000
    DeduplicateInitializersPass()(model)
    assert len(model.graph.initializers) == 2000


def test_what_was_computed_from_a_weight_loses_its_data_and_the_rest_keeps_it():
    mask = np.where(np.tri(8, dtype=bool), 0, -np.inf).astype(np.float32)
    model = model_of(
        {
            "w": Unreadable((4, 6)),
            "b": Unreadable((3,)),
            "mask": ir.tensor(mask),
            "shape": ir.tensor(np.array([2, 2], np.int64)),
        }
    )
    fill(model.graph, ["w", "b"])
    derived = {
        "turned": contents(model, "w").T,
        "picked": np.take(contents(model, "w"), [0, 1], axis=0),
        "joined": np.concatenate([contents(model, "b"), np.ones(2, np.float32)]),
        "halved": contents(model, "b").astype(np.float16),
    }
    for name, array in derived.items():
        model.graph.initializers[name] = ir.Value(name=name, const_value=ir.Tensor(array))
    clear(model.graph)
    tensors = {name: value.const_value for name, value in model.graph.initializers.items()}
    missing = {name: (tuple(t.shape), t.dtype.name) for name, t in tensors.items() if is_missing(t)}
    assert missing == {
        "w": ((4, 6), "FLOAT"),
        "b": ((3,), "FLOAT"),
        "turned": ((6, 4), "FLOAT"),
        "picked": ((2, 6), "FLOAT"),
        "joined": ((5,), "FLOAT"),
        "halved": ((3,), "FLOAT16"),
    }
    np.testing.assert_array_equal(contents(model, "mask"), mask)
    assert contents(model, "shape").tolist() == [2, 2]


def test_other_types_are_refused():
    model = model_of({"scale": Unreadable((4,), ir.DataType.FLOAT16)})
    with pytest.raises(BuildError) as raised:
        fill(model.graph, ["scale"])
    assert str(raised.value) == "weight scale is FLOAT16; only float32 modules are exported without weights"
