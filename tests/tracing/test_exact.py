"""Graphs in float64."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
import torch

from pytest_sdperf.tracing.exact import NotDefinedError, of_graph, of_module
from pytest_sdperf.tracing.held import Held, held_by, quantized_of, rounded_constants


def graph(nodes, *, initializers=(), inputs=("x",), output="y"):
    """Return a graph of nodes `(op_type, inputs, output, attributes)` over named values."""
    values = {name: ir.Value(name=name, type=ir.TensorType(ir.DataType.FLOAT)) for name in inputs}
    for name, array in initializers:
        tensor = ir.tensor(array, name=name)
        values[name] = ir.Value(name=name, const_value=tensor, type=ir.TensorType(tensor.dtype))
    made = []
    for op_type, names, result, attributes in nodes:
        values[result] = ir.Value(name=result)
        domain, _, name = op_type.rpartition("::")
        made.append(ir.node(name, [values[one] for one in names], attributes, domain=domain, outputs=[values[result]]))
    held = [values[name] for name, _ in initializers]
    return ir.Graph([values[name] for name in inputs], [values[output]], nodes=made, initializers=held)


X = np.linspace(-3, 3, 24, dtype=np.float64).reshape(4, 6)


def test_everything_is_computed_in_float64_whatever_the_graph_says():
    weights = np.linspace(0.1, 0.9, 12).reshape(6, 2).astype(np.float16)
    found = of_graph(
        graph([("MatMul", ("x", "w"), "y", {})], initializers=[("w", weights)]), {"x": X}, Held().parameter
    )
    assert found["y"].dtype == np.float64
    np.testing.assert_allclose(found["y"], X @ weights.astype(np.float64), rtol=1e-15)


def test_angles_are_computed_in_float32_by_graphs_as_by_modules():
    frequencies = np.exp(-np.linspace(0, 9, 6)).astype(np.float32)
    nodes = [("Mul", ("x", "f"), "a", {}), ("Sin", ("a",), "s", {}), ("Mul", ("s", "x"), "y", {})]
    time = np.full((1, 6), 981.0)
    (found,) = of_graph(graph(nodes, initializers=[("f", frequencies)]), {"x": time}, Held().parameter).values()
    expected = np.sin(time.astype(np.float32) * frequencies).astype(np.float64) * time
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    exactly = np.sin(time * frequencies.astype(np.float64)) * time
    assert np.abs(found - expected).max() < np.abs(found - exactly).max()


def test_a_node_without_a_definition_or_of_an_unknown_form_is_named():
    with pytest.raises(NotDefinedError, match=r"^Glue node_Glue_0: it has no definition$"):
        of_graph(graph([("acme::Glue", ("x",), "y", {})]), {"x": X}, Held().parameter)
    with pytest.raises(NotDefinedError, match=r"^MatMul node_MatMul_0: mat1 and mat2 shapes cannot be multiplied"):
        of_graph(graph([("MatMul", ("x", "x"), "y", {})]), {"x": X}, Held().parameter)


NORM = np.linspace(0.5, 1.5, 8).astype(np.float32)
MATRIX = np.linspace(-1, 1, 48).astype(np.float32).reshape(8, 6)


def build(**held):
    return graph([("Identity", ("x",), "y", {})], initializers=list(held.items()))


def test_parameters_count_as_the_build_holds_them():
    """Of one that is float32 in the file nothing is lost, also where a matrix lies the other way round."""
    held = held_by(build(w=MATRIX.astype(np.float16), norm=NORM, kept=MATRIX.T.copy()))
    assert held.halves == "float16"
    np.testing.assert_array_equal(held.parameter(NORM), NORM)
    np.testing.assert_array_equal(held.parameter(MATRIX), MATRIX)
    other = MATRIX + np.float32(1e-3)
    np.testing.assert_array_equal(held.parameter(other), other.astype(np.float16).astype(np.float64))


@pytest.mark.parametrize("arrays", [{"w": MATRIX}, {}])
def test_a_build_without_halves_rounds_nothing(arrays):
    held = held_by(build(**arrays))
    assert held == Held()
    np.testing.assert_array_equal(held.parameter(MATRIX), MATRIX)


def test_a_constant_in_half_precision_is_the_number_that_was_rounded():
    export = build(scale=np.array(0.5946035, np.float32), half=np.array(0.5, np.float32))
    halves = {"scale": np.array(0.5946035, np.float16), "half": np.array(0.5, np.float16)}
    constants = rounded_constants(build(w=MATRIX.astype(np.float16), **halves), export)
    assert constants == {float(np.float16(0.5946035)): float(np.float32(0.5946035))}
    nodes = [("Mul", ("x", "scale"), "y", {})]
    rounded = graph(nodes, initializers=[("scale", halves["scale"])])
    (found,) = of_graph(rounded, {"x": X}, Held().parameter, constants).values()
    np.testing.assert_array_equal(found, X * float(np.float32(0.5946035)))


@pytest.mark.parametrize("others", [(0.59454, 0.59460), (0.6,)])
def test_a_constant_that_no_number_or_several_may_have_been_counts_as_it_is(others):
    export = build(**{f"c{number}": np.array(one, np.float32) for number, one in enumerate(others)})
    held = build(w=MATRIX.astype(np.float16), scale=np.array(0.5946035, np.float16))
    assert rounded_constants(held, export) == {}


def quantized():
    """Return a graph whose matrix is bytes with one step for each row."""
    steps = np.abs(MATRIX).max(1) / 127
    stored = {"q": np.round(MATRIX / steps[:, None]).astype(np.int8), "s": steps}
    nodes = [("DequantizeLinear", ("q", "s"), "w", {"axis": 0}), ("MatMul", ("x", "w"), "y", {})]
    return graph(nodes, initializers=list(stored.items())), stored["q"] * steps[:, None].astype(np.float64)


@pytest.mark.parametrize("side", [lambda array: array, lambda array: array.T])
def test_what_a_quantized_weight_stands_for_is_the_parameter(side):
    built, expected = quantized()
    held = held_by(built)
    assert held == Held(quantized=True)
    found = held.parameter(side(MATRIX), quantized_of(built))
    np.testing.assert_allclose(found, side(expected), rtol=1e-6)
    assert 0 < np.abs(found - side(MATRIX)).max() < 0.01


def test_another_parameter_is_not_taken_for_the_quantized_one():
    other = np.random.default_rng(0).standard_normal(MATRIX.shape).astype(np.float32)
    np.testing.assert_array_equal(held_by(quantized()[0]).parameter(other, quantized_of(quantized()[0])), other)


def test_a_module_computes_with_the_parameters_of_the_file():
    module = torch.nn.Linear(6, 8).requires_grad_(requires_grad=False)
    module.weight.copy_(torch.from_numpy(MATRIX))
    held = held_by(build(w=MATRIX.astype(np.float16)))
    bias = held.parameter(module.bias.numpy())
    (found,) = of_module(in_a_tuple(module), [X], held.parameter)
    np.testing.assert_allclose(found, X @ MATRIX.astype(np.float16).astype(np.float64).T + bias, rtol=1e-12)


def in_a_tuple(module, call=lambda module, x: module(x)):
    """Return a module that gives a tuple, as those of models do."""

    class Tuple(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = module

        def forward(self, x):
            return (call(self.inner, x),)

    return Tuple()


def stack():
    return torch.nn.Sequential(*(torch.nn.Linear(6, 6) for _ in range(3))).requires_grad_(requires_grad=False)


def test_a_parameter_is_wide_only_while_its_part_computes():
    """Those of a whole UNet are 7 GB in float64."""
    sizes = []

    class Looking(torch.nn.Linear):
        def forward(self, x):
            sizes.append(sum(one.untyped_storage().nbytes() for one in module.parameters()))
            return super().forward(x)

    module = torch.nn.Sequential(*(Looking(6, 6) for _ in range(3))).requires_grad_(requires_grad=False)
    (found,) = of_module(in_a_tuple(module), [X], Held().parameter)
    assert {one.dtype for one in module.parameters()} == {torch.float32}
    # Two parameters of one part, and a number in place of each of the other four.
    assert sizes == [8 * (36 + 6 + 4)] * 3
    np.testing.assert_allclose(found, module.double()(torch.from_numpy(X)).numpy(), rtol=1e-12)


@pytest.mark.parametrize(
    "call",
    [
        lambda inner, x: x @ inner[0].weight,
        lambda inner, x: inner(x) * inner[1].bias,
        lambda inner, x: inner(x.to(next(inner[2].parameters()).dtype)),
    ],
)
def test_a_module_that_reads_parameters_of_its_parts_is_right_as_well(call):
    module = stack()
    expected = call(stack_like(module).double(), torch.from_numpy(X)).numpy()
    (found,) = of_module(in_a_tuple(module, call), [X], Held().parameter)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def stack_like(module):
    other = stack()
    other.load_state_dict(module.state_dict())
    return other
