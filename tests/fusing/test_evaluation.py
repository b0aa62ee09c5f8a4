"""What is worked out about values: against onnxruntime, which computes them."""

from __future__ import annotations

import by_hand
import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pytest_sdperf.fusing import contents
from pytest_sdperf.fusing.evaluation import tensor_array
from pytest_sdperf.fusing.fusion_graph import FusionGraph
from pytest_sdperf.fusing.weightless import missing

FLOATS = np.array([[1.5, -2.0, 0.25], [3.0, 0.0, -0.5]], np.float32)
INTS = np.array([[7, -3, 2], [0, 5, -1]])
HELD = {
    "f": FLOATS, "g": np.array([[2.0], [-4.0]], np.float32), "i": INTS, "j": np.array([2, 3, -2]),
    "positive": np.abs(FLOATS) + 1, "yes": INTS > 0, "no": INTS < 3, "zero": np.array([0]), "one": np.array([1]),
    "minus": np.array([-1]), "both": np.array([0, 1]), "shape": np.array([3, -1]), "keep": np.array([0, 3, 1]),
    "wide": np.array([4, 2, 3]), "start": np.array(2), "limit": np.array(11), "step": np.array(3), "two": np.array([2]),
    "fstart": np.float32(0.5), "flimit": np.float32(3), "fstep": np.float32(0.75), "back": np.array([-2**62]),
    "three": np.array([[[5]]]), "indices": np.array([[1, -1]]), "k": np.array(1), "square": np.arange(9).reshape(3, 3),
    "exponent": np.array(2), "large": np.array([2**62]),
}  # fmt: skip

NODES = [
    "Add(f, g)",
    "Sub(f, g)",
    "Mul(i, j)",
    "Div(f, g)",
    "Div(i, j)",
    "Pow(f, exponent)",
    "Sqrt(positive)",
    "Neg(i)",
    "Abs(f)",
    "Floor(f)",
    "Ceil(f)",
    "Reciprocal(positive)",
    "Equal(i, j)",
    "Less(f, g)",
    "LessOrEqual(f, g)",
    "Greater(i, j)",
    "GreaterOrEqual(i, j)",
    "Not(yes)",
    "And(yes, no)",
    "Or(yes, no)",
    "Where(yes, f, g)",
    "Min(f, g)",
    "Max(i, j)",
    "Cast <to = 7> (f)",
    "Cast <to = 10> (f)",
    "Cast <to = 9> (i)",
    "Cast <to = 1> (i)",
    "Concat <axis = 0> (i, i)",
    "Concat <axis = -1> (f, g)",
    "ConstantOfShape <value = int64[1] {4}> (two)",
    "ConstantOfShape(two)",
    "Expand(g, wide)",
    "Gather <axis = 1> (i, indices)",
    "Gather(j, k)",
    "Identity(f)",
    "Range(start, limit, step)",
    "Range(fstart, flimit, fstep)",
    "ReduceProd <keepdims = 0> (i, one)",
    "ReduceSum(f, both)",
    "ReduceSum(i)",
    "ReduceSum <noop_with_empty_axes = 1> (i)",
    "Reshape(i, shape)",
    "Reshape(i, keep)",
    "Size(i)",
    "Slice(i, zero, one)",
    "Slice(i, zero, large, one)",
    "Slice(i, minus, back, one, minus)",
    "Slice(j, one, large, zero)",
    "Slice(j, zero, large, , two)",
    "Squeeze(three)",
    "Squeeze(three, both)",
    "Transpose(i)",
    "Transpose <perm = [1, 0]> (f)",
    "Trilu(square)",
    "Trilu <upper = 0> (square, k)",
    "Unsqueeze(i, both)",
    "Unsqueeze(i, minus)",
    "Shape(i)",
    "Shape <start = 1> (i)",
    "Shape <start = 0, end = -1> (i)",
    "Constant <value_ints = [3, 4]> ()",
    "Constant <value_float = 0.5> ()",
]


def one(node, *, opset=18):
    return by_hand.make({"y": node}, "float[N] unused", "float y", HELD, opset=opset)


def computed(model):
    session = onnxruntime.InferenceSession(ir.to_proto(model).SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"unused": np.zeros(1, np.float32)})[0]


@pytest.mark.parametrize("node", NODES)
def test_contents(node):
    model = one(node)
    # The text of a graph must say a type and a shape: that of the result is not known beforehand.
    (output,) = model.graph.outputs
    output.type, output.shape = None, None
    graph = FusionGraph(model)
    found = graph.shapes.constant(output)
    output.type = ir.TensorType(output.dtype or ir.DataType.from_numpy(found.dtype))
    expected = computed(model)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    assert graph.shapes.fixed(output) == expected.shape


def test_every_operator_is_compared():
    compared = {node.partition("(")[0].partition(" ")[0] for node in NODES}
    assert compared == {*contents.CONTENTS, *contents.ELEMENTWISE, "Shape", "Constant"}


@pytest.mark.parametrize(
    "node", ["Div(i, yes)", "Reshape(i, wide)", "Slice(i, zero, one, two)", "Div(i, zero)", "Concat <axis = 0> (i, j)"]
)
def test_what_does_not_fit_is_not_known(node):
    model = one(node)
    graph = FusionGraph(model)
    assert graph.shapes.values(model.graph.outputs[0]) is None


SHAPES = {
    "Sigmoid(x)": ("N", 4, "S"),
    "Add(x, row)": ("N", 4, "S"),
    "MatMul(q, k)": ("N", 2, "S", "S"),
    "Concat <axis = 1> (x, x)": ("N", 8, "S"),
    "Gather <axis = 1> (x, picked)": ("N", 2, 3, "S"),
    "Transpose(x)": ("S", 4, "N"),
    "Transpose <perm = [1, 0, 2]> (x)": (4, "N", "S"),
    "Reshape(x, flat)": ("N", None),
    "Split <axis = 1, num_outputs = 2> (x)": ("N", 2, "S"),
    "ReduceMean <keepdims = 0> (x, axis)": ("N", 4),
    "Softmax(x)": ("N", 4, "S"),
    "Relu(x)": ("N", 4, "S"),
}  # fmt: skip
OPEN = {"row": (4, 1), "picked": np.array([[0, 1, 2], [3, 0, 1]]), "flat": np.array([0, -1]), "axis": np.array([2])}


@pytest.mark.parametrize("node", SHAPES)
def test_shapes(node):
    inputs = "float[N, 4, S] x, float[N, 2, S, 8] q, float[N, 2, 8, S] k"
    model = by_hand.make({"y": node}, inputs, "float y", OPEN)
    graph = FusionGraph(model)
    given = dict(zip(("N", "four", "S"), zip(*graph.shapes.of(model.graph.inputs[0]), strict=True), strict=True))
    known = graph.shapes.of(model.graph.outputs[0])
    for choice, sizes in enumerate(known):
        wanted = [given[size][choice] if isinstance(size, str) else size for size in SHAPES[node]]
        assert all(size in (None, found) for size, found in zip(wanted, sizes, strict=True))
    fixed = tuple(size if isinstance(size, int) else None for size in SHAPES[node])
    assert graph.shapes.fixed(model.graph.outputs[0]) == fixed


@pytest.mark.parametrize("node", ["MatMul(x, x)", "Concat <axis = 1> (x, q)", "Reshape(x, sizes)", "Unknown(x)"])
def test_shapes_that_are_not_known(node):
    inputs = "float[N, 4, S] x, float[N, 2, S, 8] q, int64[3] sizes"
    model = by_hand.make({"y": node}, inputs, "float y", {})
    graph = FusionGraph(model)
    (y,) = model.graph.outputs
    assert graph.shapes.of(y) is None
    assert graph.shapes.fixed(y) is None
    assert not graph.shapes.same(y, y)


def test_open_sizes_differ_from_each_other_and_from_choice_to_choice():
    inputs = "float[N, 4, H, W] x, float[N, S, 8] c, float[M, T] d, float[A, B, C, D, E, F, G] e"
    model = by_hand.make({"y": "Relu(x)"}, inputs, "float[N, 4, H, W] y", {})
    graph = FusionGraph(model)
    sizes = [size for value in model.graph.inputs for shape in graph.shapes.of(value) for size in shape]
    names = [dim for value in model.graph.inputs for _ in range(2) for dim in value.shape]
    found = {}
    for value in model.graph.inputs:
        for choice, shape in enumerate(graph.shapes.of(value)):
            for dim, size in zip(value.shape, shape, strict=True):
                found.setdefault((str(dim), choice), set()).add(size)
    opened = [size for (name, _), group in found.items() for size in group if not name.isdigit()]
    assert len(sizes) == len(names)
    assert len(opened) == len(set(opened)) == 2 * 13
    # An image can be halved again and again; a text is no longer than a text encoder takes.
    images = [size for (name, _), group in found.items() for size in group if name in "HW"]
    assert all(size % 64 == 0 for size in images)
    assert max(size for (name, _), group in found.items() for size in group if name in "NST") < 77


def test_a_vector_is_one_for_all_samples_or_one_for_each():
    inputs = "float[steps] t, float[N, 4] x"
    lines = {"n": "Shape <end = 1> (x)", "y": "Expand(t, n)"}
    graph = FusionGraph(by_hand.make(lines, inputs, "float[N] y", {}))
    t, x = graph.graph.inputs
    (one,), (each,) = graph.shapes.of(t)
    (_, _), (samples, _) = graph.shapes.of(x)
    assert (one, each) == (1, samples)
    assert graph.shapes.of(graph.graph.outputs[0]) == tuple(shape[:1] for shape in graph.shapes.of(x))


def test_a_size_without_a_name_is_open():
    x = ir.val("x", ir.DataType.FLOAT, [None, 3])
    node = ir.node("Relu", [x], name="y")
    node.outputs[0].name = "y"
    model = ir.Model(ir.Graph([x], node.outputs, nodes=[node], opset_imports={"": 18}), ir_version=9)
    assert FusionGraph(model).shapes.fixed(node.outputs[0]) == (None, 3)


# ------------------------------------------------------------------------------------------------ what a weight is

SQUARE = np.triu(np.full((1, 80, 80), np.finfo(np.float32).min, np.float32), 1)


@pytest.mark.parametrize(
    ("array", "known"),
    [
        (np.arange(64, dtype=np.float32), True),
        (np.arange(65, dtype=np.float32), False),
        (np.arange(70000), False),
        (np.arange(65000), True),
        (SQUARE, True),
        (SQUARE[:, :, :70], False),
        (SQUARE.swapaxes(1, 2), True),
        (-SQUARE, False),
        (np.zeros((100, 100), np.float32), True),
        (np.zeros(100, np.float32), False),
        (np.ones((100, 100), np.float32), False),
    ],
)
def test_masks_and_constants_are_read_and_weights_are_not(array, known):
    found = tensor_array(ir.tensor(array))
    assert (found is not None) == known
    if known:
        np.testing.assert_array_equal(found, array)


def test_weights_without_data_are_not_read():
    assert tensor_array(missing("w", dtype=ir.DataType.FLOAT, shape=[2, 2])) is None


@given(st.data())
def test_what_broadcasting_repeats_is_looked_at_once(data):
    shape = data.draw(hnp.array_shapes(max_dims=3, max_side=4))
    array = data.draw(hnp.arrays(np.float32, shape, elements=st.floats(-2, 2, width=16)))
    larger = np.broadcast_to(array, (5, *shape))
    assert contents.distinct(larger).size <= array.size
    assert set(contents.distinct(larger).ravel()) == set(array.ravel())
    assert contents.equal(larger, larger.copy())
    assert not contents.equal(larger, array)
    changed = larger.copy()
    changed.flat[-1] += 1
    assert not contents.equal(larger, changed)


def test_no_number_is_equal_to_itself():
    assert contents.equal(np.array([np.nan, 1]), np.array([np.nan, 1]))
    assert not contents.equal(np.array([np.nan, 1]), np.array([1, np.nan]))


def test_a_mask_for_many_images_takes_no_memory():
    lines = {"n": "Shape <end = 1> (x)", "s": "Concat <axis = 0> (n, rest)", "m": "Expand(hidden, s)",
             "y": "Add(m, m)"}  # fmt: skip
    held = {"rest": np.array([1, 4000, 4000]), "hidden": np.float32(-1)}
    model = by_hand.make(lines, "float[N, 4] x", "float y", held)
    graph = FusionGraph(model)
    for array in graph.shapes.values(model.graph.outputs[0]):
        assert array.size > 1e8
        assert contents.distinct(array).tolist() == [[[[-2]]]]
