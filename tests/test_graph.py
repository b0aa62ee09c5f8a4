from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from pytest_sdperf.core.errors import BuildError
from pytest_sdperf.fusing.graph import (
    NOT_STORED,
    GraphFacts,
    check_model,
    count_ops,
    counted_name,
    describe,
    graph_hash,
    without_cpu_kernel,
)


def _save(path: Path, nodes, *, functions=(), initializers=(), shape=("n", 4), producer="", opsets=()) -> Path:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(shape))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, list(shape))],
        list(initializers),
    )
    imports = [helper.make_opsetid("", 18), *(helper.make_opsetid(domain, 1) for domain in opsets)]
    model = helper.make_model(graph, opset_imports=imports, functions=list(functions), producer_name=producer)
    model.ir_version = 10
    onnx.save(model, path)
    return path


def _linear(path: Path, *, scale=1.0, name="", middle="m", axis=-1, op="Relu", **kwargs) -> Path:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], [middle], name=name),
        helper.make_node(op, [middle], ["z"]),
        helper.make_node("Softmax", ["z"], ["y"], axis=axis),
    ]
    weight = numpy_helper.from_array(scale * np.ones((4, 4), np.float32), "w")
    return _save(path, nodes, initializers=[weight], **kwargs)


def test_counts_by_domain_and_op_type(tmp_path):
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], domain="ai.onnx"),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Gelu", ["b"], ["c"], domain="com.microsoft"),
        helper.make_node("Identity", ["c"], ["y"]),
    ]
    path = _save(tmp_path / "m.onnx", nodes, opsets=["com.microsoft"])
    assert count_ops(path) == {"::Relu": 2, "com.microsoft::Gelu": 1, "::Identity": 1}


def test_counts_reach_into_subgraphs_and_functions_as_if_inlined(tmp_path):
    branch = helper.make_graph(
        [helper.make_node("Twice", ["x"], ["b"], domain="my")],
        "then",
        [],
        [helper.make_tensor_value_info("b", TensorProto.FLOAT, None)],
    )
    twice = helper.make_function(
        "my",
        "Twice",
        ["p"],
        ["q"],
        [helper.make_node("Abs", ["p"], ["r"]), helper.make_node("Abs", ["r"], ["q"])],
        [helper.make_opsetid("", 18)],
    )
    nodes = [
        helper.make_node("If", ["c"], ["i"], then_branch=branch, else_branch=branch),
        helper.make_node("Twice", ["i"], ["y"], domain="my"),
    ]
    flag = numpy_helper.from_array(np.array(True), "c")
    path = _save(tmp_path / "m.onnx", nodes, functions=[twice], initializers=[flag], opsets=["my"])
    assert count_ops(path) == {"::If": 1, "::Abs": 6}
    assert len(graph_hash(path)) == 16


ATTENTION = "com.microsoft::MultiHeadAttention"


@pytest.mark.parametrize(
    ("inputs", "name"),
    [
        (["x"], f"{ATTENTION}[packed-qkv]"),
        (["x", "k"], f"{ATTENTION}[packed-kv]"),
        (["x", "k", "", "b"], f"{ATTENTION}[packed-kv]"),
        (["x", "k", "v"], ATTENTION),
        (["x", "k", "v", "b"], ATTENTION),
    ],
)
def test_attention_with_packed_inputs_is_counted_apart(tmp_path, inputs, name):
    given = [helper.make_node("Relu", ["x"], [value]) for value in sorted({*inputs} - {"x", ""})]
    node = helper.make_node("MultiHeadAttention", inputs, ["y"], domain="com.microsoft", num_heads=1)
    path = _save(tmp_path / "m.onnx", [*given, node], opsets=["com.microsoft"])
    assert count_ops(path) == {name: 1, **({"::Relu": len(given)} if given else {})}


def test_attention_of_other_domains_has_no_forms():
    assert counted_name("", "MultiHeadAttention", [True]) == "::MultiHeadAttention"
    assert counted_name("ai.onnx", "Attention", [True]) == "::Attention"
    assert counted_name("com.microsoft", "Attention", [True]) == "com.microsoft::Attention"


@pytest.mark.parametrize("op_type", ["GroupNorm", "SkipGroupNorm"])
@pytest.mark.parametrize(("activation", "form"), [(1, "[silu]"), (0, ""), (None, "")])
def test_a_norm_that_has_taken_in_its_activation_is_counted_apart(tmp_path, op_type, activation, form):
    attributes = {} if activation is None else {"activation": activation}
    node = helper.make_node(op_type, ["x", "g", "b"], ["y"], domain="com.microsoft", groups=1, **attributes)
    weights = [numpy_helper.from_array(np.ones(1, dtype=np.float32), name) for name in "gb"]
    path = _save(tmp_path / "m.onnx", [node], initializers=weights, opsets=["com.microsoft"])
    assert count_ops(path) == {f"com.microsoft::{op_type}{form}": 1}
    assert without_cpu_kernel(path, "") == (f"com.microsoft::{op_type}{form}",)


def test_only_norms_have_an_activation():
    assert counted_name("com.microsoft", "FusedConv", [True], activated=True) == "com.microsoft::FusedConv"
    assert counted_name("", "GroupNorm", [True], activated=True) == "::GroupNorm"


def test_the_cpu_kernel_of_attention_takes_no_packed_inputs(tmp_path):
    node = helper.make_node("MultiHeadAttention", ["x"], ["y"], domain="com.microsoft", num_heads=2)
    tensor = helper.make_tensor_value_info
    graph = helper.make_graph(
        [node], "g", [tensor("x", TensorProto.FLOAT, [1, 4, 2, 3, 8])], [tensor("y", TensorProto.FLOAT, [1, 4, 16])]
    )
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=10), tmp_path / "m.onnx")
    assert check_model(tmp_path / "m.onnx") == (f"{ATTENTION}[packed-qkv]",)


def test_counts_and_hash_need_no_weights(tmp_path):
    path = _linear(tmp_path / "m.onnx")
    model = onnx.load(path)
    onnx.save_model(model, tmp_path / "e.onnx", save_as_external_data=True, location="e.onnx.data", size_threshold=0)
    (tmp_path / "e.onnx.data").unlink()
    assert count_ops(tmp_path / "e.onnx") == count_ops(path)
    assert graph_hash(tmp_path / "e.onnx") == graph_hash(path)


@pytest.mark.parametrize(
    "change", [{"scale": 2.0}, {"name": "other"}, {"middle": "other"}, {"producer": "someone"}], ids=str
)
def test_hash_does_not_see(tmp_path, change):
    assert graph_hash(_linear(tmp_path / "a.onnx")) == graph_hash(_linear(tmp_path / "b.onnx", **change))


@pytest.mark.parametrize("change", [{"axis": 0}, {"op": "Abs"}, {"shape": (2, 4)}, {"opsets": ["my"]}], ids=str)
def test_hash_sees(tmp_path, change):
    assert graph_hash(_linear(tmp_path / "a.onnx")) != graph_hash(_linear(tmp_path / "b.onnx", **change))


def _sub(path: Path, first: str, second: str, *, swapped=False, reshape=(4,), external=False) -> Path:
    nodes = [
        helper.make_node("Abs", ["x"], ["a"]),
        helper.make_node("Exp", ["x"], ["b"]),
        helper.make_node("Sub", [first, second], ["s"]),
        helper.make_node("Reshape", ["s", "t"], ["y"]),
    ]
    if swapped:
        nodes[0], nodes[1] = nodes[1], nodes[0]
    return _save(path, nodes, initializers=[numpy_helper.from_array(np.array(reshape, np.int64), "t")])


def test_hash_sees_wiring_and_shapes_but_not_the_order_in_the_file(tmp_path):
    base = graph_hash(_sub(tmp_path / "a.onnx", "a", "b"))
    assert graph_hash(_sub(tmp_path / "b.onnx", "a", "b", swapped=True)) == base
    assert graph_hash(_sub(tmp_path / "c.onnx", "b", "a")) != base
    assert graph_hash(_sub(tmp_path / "d.onnx", "a", "b", reshape=(2, 2))) != base


def test_a_valid_model_passes(tmp_path):
    path = _linear(tmp_path / "m.onnx")
    assert check_model(path) == ()
    assert describe(path) == GraphFacts(
        counts={"::MatMul": 1, "::Relu": 1, "::Softmax": 1},
        float32_products={},
        graph_hash=graph_hash(path),
        without_cpu_kernel=(),
    )


def test_ops_without_a_cpu_kernel_are_named(tmp_path):
    nodes = [helper.make_node("BiasAdd", ["x", "w", "x"], ["y"], domain="com.microsoft")]
    weight = numpy_helper.from_array(np.ones(4, np.float32), "w")
    path = _save(tmp_path / "m.onnx", nodes, initializers=[weight], opsets=["com.microsoft"], shape=(1, 2, 4))
    assert check_model(path) == ("com.microsoft::BiasAdd",)


def test_the_checker_refuses(tmp_path):
    path = _save(tmp_path / "m.onnx", [helper.make_node("Relu", ["missing"], ["y"])])
    with pytest.raises(BuildError) as raised:
        check_model(path)
    assert str(raised.value) == (
        "the ONNX checker refuses m.onnx: Nodes in a graph must be topologically sorted, however input 'missing' of "
        "node: name: OpType: Relu is not output of any previous nodes."
    )


def test_onnxruntime_refuses_types_that_the_checker_lets_through(tmp_path):
    nodes = [helper.make_node("Concat", ["x", "h"], ["y"], axis=0)]
    half = numpy_helper.from_array(np.ones((1, 4), np.float16), "h")
    path = _save(tmp_path / "m.onnx", nodes, initializers=[half])
    with pytest.raises(BuildError) as raised:
        check_model(path)
    text = str(raised.value)
    assert text.startswith("onnxruntime ")
    assert "refuses m.onnx: [ONNXRuntimeError]" in text
    assert "tensor(float16)" in text


def _bare(path: Path, *, op="Relu", rows=4) -> Path:
    model = onnx.load(_linear(path, op=op))
    (weight,) = model.graph.initializer
    weight.ClearField("raw_data")
    weight.dims[0] = rows
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value=NOT_STORED)
    onnx.save(model, path)
    return path


def test_weights_without_data_change_nothing_that_is_described(tmp_path):
    assert describe(_bare(tmp_path / "bare.onnx")) == describe(_linear(tmp_path / "m.onnx"))


def test_without_data_a_model_is_checked_all_the_same(tmp_path):
    with pytest.raises(BuildError) as raised:
        describe(_bare(tmp_path / "bare.onnx", op="Rleu"))
    assert str(raised.value).startswith("the ONNX checker refuses bare.onnx: No Op registered for Rleu")
    with pytest.raises(BuildError) as raised:
        describe(_bare(tmp_path / "bare.onnx", rows=5))
    assert re.match(r"onnxruntime [\d.]+ refuses bare\.onnx: .*Incompatible dimensions", str(raised.value))


def test_data_that_is_merely_lost_is_no_weight_without_data(tmp_path):
    model = onnx.load(_linear(tmp_path / "m.onnx"))
    onnx.save_model(model, tmp_path / "e.onnx", save_as_external_data=True, location="e.onnx.data", size_threshold=0)
    (tmp_path / "e.onnx.data").unlink()
    with pytest.raises(BuildError) as raised:
        describe(tmp_path / "e.onnx")
    assert str(raised.value).startswith("the ONNX checker refuses e.onnx: Data of TensorProto ( tensor name: w)")


def test_hash_does_not_see_where_a_large_constant_lies(tmp_path):
    places = np.arange(80, dtype=np.int64)
    nodes = [helper.make_node("Gather", ["x", "places"], ["y"], axis=1)]
    hashes = set()
    for array in (places, places + 1):
        path = _save(
            tmp_path / "m.onnx", nodes, initializers=[numpy_helper.from_array(array, "places")], shape=("n", 90)
        )
        hashes.add(graph_hash(path))
        model = onnx.load(path)
        onnx.save_model(model, path, save_as_external_data=True, location="m.onnx.data", size_threshold=256)
        hashes.add(graph_hash(path))
        (tmp_path / "m.onnx.data").unlink()
    assert len(hashes) == 1


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"w": "FLOAT16"}, "the weight 'w' is float32, and the graph says float16"),
        ({"z": "FLOAT16"}, "MatMul 'product' makes 'z' in float32, and the graph says float16"),
        ({"y": "BFLOAT16", "z": "FLOAT"}, "Relu 'y' makes 'y' in float32, and the graph says bfloat16"),
    ],
)
def test_a_type_that_the_graph_says_wrongly_is_refused_with_its_place(tmp_path, said, told):
    nodes = [helper.make_node("MatMul", ["x", "w"], ["z"], name="product"), helper.make_node("Relu", ["z"], ["y"])]
    weight = numpy_helper.from_array(np.ones((4, 4), np.float32), "w")
    model = onnx.load(_save(tmp_path / "m.onnx", nodes, initializers=[weight]))
    for name, dtype in said.items():
        outputs = {value.name: value for value in model.graph.output}
        value = outputs[name] if name in outputs else model.graph.value_info.add(name=name)
        value.type.tensor_type.elem_type = getattr(TensorProto, dtype)
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(BuildError) as raised:
        check_model(tmp_path / "m.onnx", strict=True)
    assert str(raised.value) == f"the ONNX checker refuses m.onnx: {told}"
