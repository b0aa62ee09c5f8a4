"""How fusions are run, and how a graph is changed by them."""

from __future__ import annotations

import by_hand
import numpy as np
import onnx_ir as ir
import pytest
from by_hand import make

from pytest_sdperf.fusing.fusion import Fusion, RefusalError, run
from pytest_sdperf.fusing.fusion_graph import SCOPES, FusionGraph, path_of
from pytest_sdperf.fusing.optimizations.fusions.gelu import Gelu
from pytest_sdperf.fusing.optimizations.fusions.skip_layer_norm import SkipLayerNormalization
from pytest_sdperf.fusing.record import Site

X, Y = "float[N, 8] x", "float[N, 8] y"


class Halve(Fusion):
    """Add(a, a) -> acme::Twice(a), for every sum."""

    op = "acme::Twice"

    def __init__(self, made="acme::Twice", *, known=True):
        self.made = made
        self.known = known

    def candidates(self, graph):
        return graph.nodes("Add")

    def requires(self, node, graph):
        if node.inputs[0] is not node.inputs[1]:
            raise RefusalError("its operands differ", graph.producer(node.inputs[0]))
        return node

    def apply(self, match, graph):
        domain, _, op_type = self.made.partition("::")
        like = match.outputs[0] if self.known else None
        fused = graph.add(op_type, match.inputs[:1], before=match, domain=domain, like=like)
        graph.replace(match.outputs[0], fused.outputs[0])
        return fused


def sums():
    model = make({"r": "Relu(x)", "a": "Add(x, r)", "b": "Add(r, x)", "c": "Add(a, a)", "d": "Mul(b, c)",
                  "y": "Mul(d, d)"}, X, Y, {})  # fmt: skip
    model.graph[3].metadata_props[SCOPES] = "['', 'unet.mid_block', 'add']"
    return model


def test_every_place_is_told():
    graph = FusionGraph(sums())
    # Without a culprit, or with none that computes something, it is the candidate itself.
    assert run(Halve(), graph) == [
        Site("acme::Twice", "", "a", "Add", "its operands differ"),
        Site("acme::Twice", "", "r", "Relu", "its operands differ"),
        Site("acme::Twice", "unet.mid_block", "sdperf_Twice_0", "Twice"),
    ]
    (fused,) = graph.nodes("Twice", domain="acme")
    assert path_of(fused) == "unet.mid_block"
    assert fused.metadata_props[SCOPES] == "['', 'unet.mid_block', 'add']"
    assert graph.graph.opset_imports["acme"] == 1
    assert graph.shapes.same(fused.outputs[0], graph.graph.inputs[0])
    assert fused.outputs[0].dtype == ir.DataType.FLOAT


@pytest.mark.parametrize(
    ("fusion", "message"),
    [
        (Halve("acme::Thrice"), "sdperf_Thrice_0 is a acme::Thrice"),
        (Halve(known=False), "the shape of sdperf_Twice_0 is not known"),
    ],
)
def test_a_fusion_that_makes_something_else_is_a_mistake(fusion, message):
    with pytest.raises(AssertionError) as caught:
        run(fusion, FusionGraph(sums()))
    assert str(caught.value).splitlines()[0] == message


def test_a_fused_node_that_is_not_in_the_graph_is_a_mistake():
    class Lost(Halve):
        def apply(self, match, graph):
            fused = super().apply(match, graph)
            graph.graph.remove(fused.outputs[0].consumers()[0].outputs[0].consumers()[0])
            graph.graph.remove(fused.outputs[0].consumers()[0])
            graph.graph.remove(fused)
            return fused

    model = sums()
    model.graph.outputs.clear()
    with pytest.raises(AssertionError) as caught:
        run(Lost(), FusionGraph(model))
    assert str(caught.value).splitlines()[0] == "sdperf_Twice_0 is not in the graph"


def test_a_candidate_that_is_gone_is_passed_over():
    class All(Halve):
        def candidates(self, graph):
            return [graph.nodes("Add")[-1]] * 2

    assert [site.reason for site in run(All(), FusionGraph(sums()))] == [""]


@pytest.mark.parametrize(
    ("name", "scopes", "path"),
    [
        ("node_add", "['', 'unet.mid_block', 'add_3']", "unet.mid_block"),
        ("node_add", "['', 'add_3']", ""),
        ("node_add", "['add_3']", ""),
        ("/unet/down_blocks.0/norm1/Mul", None, "unet.down_blocks.0.norm1"),
        ("/Mul", None, ""),
        ("Mul_7", None, ""),
        (None, None, ""),
    ],
)
def test_the_module_path_of_a_node(name, scopes, path):
    node = ir.node("Add", [ir.val("a"), ir.val("b")], name=name)
    if scopes:
        node.metadata_props[SCOPES] = scopes
    assert path_of(node) == path


# ---------------------------------------------------------------------------------------------------- looking around


def test_readers():
    graph = FusionGraph(make({"a": "Relu(x)", "s": "Shape(a)", "b": "Reshape(a, s)", "y": "Mul(b, b)"}, X, Y, {}))
    x, a, b = graph.graph.inputs[0], graph.graph[0].outputs[0], graph.graph[2].outputs[0]
    assert [node.op_type for node in graph.users(a)] == ["Shape", "Reshape"]
    assert [node.op_type for node in graph.users(b)] == ["Mul"]
    assert graph.user(x, "Relu").op_type == "Relu"
    assert graph.user(x, "Sigmoid") is None
    assert graph.user(a, "Reshape", "Shape") is None
    assert graph.reader(a, "Reshape").op_type == "Reshape"
    assert graph.reader(a, "Transpose") is None
    assert graph.user(graph.graph.outputs[0], "Mul") is None
    assert graph.producer(a, "Relu") is graph.graph[0]
    assert graph.producer(a, "Relu", domain="com.microsoft") is None
    assert graph.producer(x) is None
    assert graph.producer(None) is None
    assert graph.other(graph.graph[2], a) is graph.graph[1].outputs[0]
    assert graph.other(graph.graph[3], b) is b


def test_what_does_not_depend_on_inputs():
    text = """<ir_version: 9, opset_import: ["": 18]> g (bool c, float[N, 8] x) => (float y) {
        s = Shape(x)
        f = Cast <to = 1> (s)
        v = ReduceSum(f)
        p = Mul(v, x)
        r = RandomNormal <shape = [8]> ()
        one = Constant <value_float = 1.0> ()
        always = Constant <value = bool {1}> ()
        q = If(always) <then_branch = t () => (float a) { a = ReduceSum(x) },
                         else_branch = e () => (float b) { b = Identity(v) }>
        y = Sum(p, r, one, q)
    }"""
    graph = FusionGraph(ir.from_onnx_text(text))
    fixed = {value.name for node in graph.graph for value in node.outputs if graph.is_fixed(value)}
    assert fixed == {"s", "f", "v", "one", "always"}


def test_numbers():
    held = {"one": np.float32(1), "same": np.full((2, 3), 0.5, np.float32), "other": np.array([1.0, 2.0], np.float32),
            "none": np.zeros(0, np.float32), "yes": np.array(True), "whole": np.array([3])}  # fmt: skip
    lines = {name + "_": f"Identity({name})" for name in held}
    graph = FusionGraph(make({**lines, "y": "Relu(x)"}, X, Y, held))
    found = {name: graph.scalar(value) for name, value in graph.graph.initializers.items()}
    assert found == {"one": 1.0, "same": 0.5, "other": None, "none": None, "yes": None, "whole": 3.0}
    assert graph.scalar(None) is None
    assert graph.scalar(graph.graph.inputs[0]) is None


# ---------------------------------------------------------------------------------------------------------- changing


def test_equal_constants_are_one():
    graph = FusionGraph(make({"y": "Relu(x)"}, X, Y, {}))
    first = graph.constant(np.arange(12), "a")
    assert graph.constant(np.arange(12), "b") is first
    others = [
        graph.constant(array, "a")
        for array in (np.arange(12).reshape(3, 4), np.arange(12.0), np.arange(13), np.float32(0), np.float32(-0.0))
    ]
    assert len({first, *others}) == 6
    assert graph.shapes.constant(first).tolist() == list(range(12))


def test_a_node_that_is_read_stays():
    graph = FusionGraph(make({"a": "Relu(x)", "b": "Neg(a)", "c": "Abs(b)", "y": "Neg(a)"}, X, Y, {}))
    unread = graph.graph[2]
    graph.discard(graph.graph[1])
    assert len(graph.graph) == 4
    graph.discard(unread)
    assert [node.op_type for node in graph.graph] == ["Relu", "Neg"]
    graph.discard(unread)
    graph.discard(None)


def test_shapes_are_written_down():
    model = make({"a": "Relu(x)", "s": "Shape(a)", "y": "Reshape(a, s)"}, X, Y, {})
    graph = FusionGraph(model)
    graph.record_shapes()
    assert [str(value.shape) for node in model.graph for value in node.outputs] == ["[None,8]", "[2]", "[N,8]"]


def test_nothing_is_said_of_a_graph_without_candidates():
    assert by_hand.fuse(make({"y": "Relu(x)"}, X, Y, {})) == []


def test_a_weight_is_read_once_to_fuse_and_once_to_save():
    """A model may be larger than memory: what is derived from weights is computed when the model is saved."""
    lines = {**by_hand.SKIP_NORM, "t2": "Transpose(w3)", "z": "MatMul(y, t2)"}
    model = by_hand.layer_norm(lines=lines, outputs="float[N, S, 16] z", weights={"w3": (16, 16)})
    reads = []

    def watched(value):
        array = by_hand.draw(tuple(value.shape.numpy()), value.name)

        def read():
            reads.append(value.name)
            return ir.tensor(array)

        return ir.LazyTensor(read, dtype=value.dtype, shape=value.shape, name=value.name)

    for value in model.graph.initializers.values():
        value.const_value = watched(value)
    by_hand.fuse(model, SkipLayerNormalization(), Gelu(), to_float16=True)
    assert sorted(reads) == ["b", "beta", "gamma", "w", "w3"]  # is it a mask or a constant?
    reads.clear()
    ir.to_proto(model)
    assert sorted(reads) == ["b", "beta", "gamma", "w", "w3"]
