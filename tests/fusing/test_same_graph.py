"""Two files of one graph at two sizes, and what tells them apart beside these."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import onnx_ir as ir
import pytest

from pytest_sdperf.fusing.same_graph import differences

SCALES = {Fraction(1), Fraction(4), Fraction(8, 3), Fraction(32, 3)}


def graph(height, width, *, edit=lambda parts: None):
    """Return a graph of a projection, its norm, and a view of their rows as a picture."""
    parts = {
        "weight": np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8),
        "scale": np.linspace(0.5, 1.5, 8, dtype=np.float32),
        "sizes": np.array([1, height, width, 8], np.int64),
        "axis": np.array([3], np.int64),
        "epsilon": 1e-5,
        "view": "Reshape",
        "order": ["p", "scale"],
        "more": False,
    }
    edit(parts)
    values = {name: ir.Value(name=name, const_value=ir.tensor(one)) for name, one in parts.items() if _held(one)}
    values["x"] = ir.Value(name="x")

    def node(op_type, inputs, output, attributes=None):
        values[output] = ir.Value(name=output)
        given = [values[name] for name in inputs]
        nodes.append(ir.node(op_type, given, attributes, outputs=[values[output]], name=f"node_{output}"))

    nodes = []
    node("MatMul", ["x", "weight"], "p")
    node("LayerNormalization", parts["order"], "n", {"epsilon": parts["epsilon"]})
    node("Constant", [], "c", {"value": ir.tensor(parts["sizes"])})
    node(parts["view"], ["n", "c"], "v")
    node("ReduceMean", ["v", "axis"], "y")
    if parts["more"]:
        node("Relu", ["y"], "z")
    held = [value for value in values.values() if value.const_value is not None]
    return ir.Graph([values["x"]], [values["y"]], nodes=nodes, initializers=held)


def _held(part):
    return isinstance(part, np.ndarray)


def found(edit):
    return list(differences(graph(64, 64, edit=edit), graph(16, 24), SCALES))


def test_sizes_of_the_picture_alone_are_no_difference():
    assert found(lambda parts: None) == []


def weight(parts):
    parts["weight"][3, 3] += 1e-6


EDITS = {
    "a weight": (weight, "MatMul node_p has another input 1"),
    "a dtype": (
        lambda p: p.update(scale=p["scale"].astype(np.float16)), "LayerNormalization node_n has another input 1",
    ),
    "an attribute": (lambda p: p.update(epsilon=1e-3), "LayerNormalization node_n has another epsilon"),
    "a wire": (lambda p: p.update(order=["x", "scale"]), "LayerNormalization node_n has another input 0"),
    "an axis": (lambda p: p.update(axis=np.array([12], np.int64)), "ReduceMean node_y has another input 1"),
    "a size that is none of the picture": (
        lambda p: p.update(sizes=np.array([1, 64, 32, 16], np.int64)), "Reshape node_v has another input 1",
    ),
    "an operator": (lambda p: p.update(view="Expand"), "Expand node_v stands where the other file has Reshape node_v"),
    "a node more": (lambda p: p.update(more=True), "it has 5 nodes, and the other file 4"),
}  # fmt: skip


@pytest.mark.parametrize("name", EDITS)
def test_everything_else_is_named_with_its_node(name):
    edit, expected = EDITS[name]
    assert found(edit) == [expected]


def test_other_outputs_and_inputs_are_named():
    one, other = graph(16, 24), graph(16, 24)
    one.outputs[0] = next(node.outputs[0] for node in one if node.op_type == "MatMul")
    assert list(differences(one, other, SCALES)) == ["it has other outputs"]
    one.inputs[0].name = "sample"
    assert list(differences(one, other, SCALES)) == ["it has other inputs"]
