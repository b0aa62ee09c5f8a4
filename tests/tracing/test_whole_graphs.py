"""A graph that is right by its definitions, and wrong in the types that it says."""

from __future__ import annotations

import graph_zoo
import numpy as np
import onnx_ir as ir
import pytest
import torch

from pytest_sdperf.checks.agreement.locations import sentence
from pytest_sdperf.fusing import half
from pytest_sdperf.fusing.native import fuse
from pytest_sdperf.tracing.activations import ActivationIndex
from pytest_sdperf.tracing.comparison import GraphComparison
from pytest_sdperf.tracing.computer import Computer, compute
from pytest_sdperf.tracing.held import held_by, rounded_constants
from pytest_sdperf.tracing.reference import SAME, load, pool_of_graphs
from pytest_sdperf.tracing.search import located, wrong_in_graph, wrong_in_types

RANDOM = np.random.default_rng(0)
TIMES = RANDOM.uniform(1, 999, (2, 1)).astype(np.float32)
RATES = np.exp(-np.linspace(0, 9, 32)).astype(np.float32)[None]
WEIGHT = RANDOM.standard_normal((32, 16)).astype(np.float16)
FLOAT, HALF = ir.TensorType(ir.DataType.FLOAT), ir.TensorType(ir.DataType.FLOAT16)


def timestep_graph(angles: ir.TensorType, factor: float = 1.0) -> ir.Graph:
    """The sine of each timestep at each rate, and a product of that in float16.

    Args:
        angles: Type in which angles and sines are computed.
        factor: Of the weight.
    """
    x = ir.Value(name="x", type=FLOAT, shape=ir.Shape([2, 1]))
    tape = ir.tape.Tape()
    rates, weight = (
        ir.Value(name=name, type=kind, shape=ir.Shape(array.shape), const_value=ir.tensor(array, name=name))
        for name, kind, array in (
            ("rates", FLOAT, RATES),
            ("weight", HALF, (WEIGHT * np.float16(factor)).astype(np.float16)),
        )
    )
    cast = [tape.op("Cast", [one], {"to": angles.dtype.value}, name=f"cast_{one.name}") for one in (x, rates)]
    angle = tape.op("Mul", cast, name="angle")
    sine = tape.op("Sin", [angle], name="sine")
    half = tape.op("Cast", [sine], {"to": ir.DataType.FLOAT16.value}, name="half")
    out = tape.op("MatMul", [half, weight], name="product")
    for value, kind, size in (
        (cast[0], angles, 1), (cast[1], angles, 32), (angle, angles, 32), (sine, angles, 32), (half, HALF, 32),
        (out, HALF, 16),
    ):  # fmt: skip
        value.type, value.shape = kind, ir.Shape([2, size])
    for value, name in ((sine, "sine"), (out, "y")):
        value.name = name
    return ir.Graph([x], [out], nodes=tape.nodes, initializers=[rates, weight], opset_imports={"": 18}, name="timestep")


def values_of(graph: ir.Graph, wide: torch.dtype | None) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = {}
    compute(Computer(graph, wide=wide), graph, {"x": TIMES}, lambda value, made: found.update({value.name: made}))
    return found


@pytest.fixture
def activations() -> ActivationIndex:
    """What torch has: the sine in float32, then rounded."""
    right = timestep_graph(FLOAT)
    return pool_of_graphs(right, right, {"x": TIMES}, rounding=held_by(right).parameter, dtype="float16", device="cpu")


def compared(graph: ir.Graph, activations: ActivationIndex) -> GraphComparison:
    return GraphComparison(graph, activations, {"x": TIMES}, constants={})


def engine_of(graph: ir.Graph) -> dict[str, np.ndarray]:
    return {name: made.numpy() for name, made in values_of(graph, None).items()}


def test_types_that_are_too_narrow_are_named(activations):
    graph = timestep_graph(HALF)
    comparison = compared(graph, activations)
    assert comparison.faults == []
    suspect = wrong_in_types(comparison, engine_of(graph), dtype="float16")
    assert suspect is not None
    assert (suspect.kind, suspect.location.node, suspect.location.error > 10 * suspect.location.limit) == (
        "types",
        "sine",
        True,
    )
    told = sentence(located(suspect, "unet"))
    assert told.startswith("The graph of the unet goes wrong at Sin sine: relative L2 error ")
    assert told.endswith(
        "By its definition it is right, but not in the types in which the graph computes it: these are too narrow "
        "there, whatever runs it. The last value before it that agrees is that of Mul angle."
    )


def test_an_engine_that_computes_in_wider_types_is_not_blamed_for_them(activations):
    comparison = compared(timestep_graph(HALF), activations)
    assert wrong_in_types(comparison, engine_of(timestep_graph(FLOAT)), dtype="float16") is None


def test_types_that_are_wide_enough_are_right(activations):
    graph = timestep_graph(FLOAT)
    comparison = compared(graph, activations)
    assert comparison.coarse == {}
    assert wrong_in_types(comparison, engine_of(graph), dtype="float16") is None


def test_a_graph_that_is_wrong_by_less_than_halves_can_tell_is_named(activations):
    comparison = compared(timestep_graph(FLOAT, factor=1.001), activations)
    suspect = wrong_in_graph(comparison)
    assert suspect is not None
    assert (suspect.kind, suspect.location.node, suspect.location.limit) == ("graph", "product", SAME)
    assert 1e-5 < suspect.location.error < 1e-3
    assert [one.node for one in suspect.inputs] == ["half"]


@pytest.mark.parametrize("dtype", ["<i8", "<i4", "<f8", "<f4", "<f2", "bool", "uint8"])
def test_a_weight_keeps_its_type_where_its_order_of_bytes_was_written_down(dtype):
    """As in every file with external data."""
    array = np.array([1, 100], np.dtype(dtype).newbyteorder("<"))
    placed = Computer(timestep_graph(FLOAT), wide=None).placed(array)
    assert placed.numpy().dtype == np.dtype(dtype)
    assert placed.tolist() == array.tolist()


@pytest.mark.slow
def test_a_whole_unet_whose_sinusoids_are_float16_names_them_and_no_block_behind(tmp_path, monkeypatch):
    """As converters leave them that know no sinusoids: everything behind is wrong as well, up to the last block."""
    name, says = "torch-2.13/sd15-thin-unet-dynamo-18-static", {"to_float16": True, "float32": ["timestep"]}
    paths = {}
    for which in ("raw", "right", "narrow"):
        model, paths[which] = graph_zoo.load(name), tmp_path / f"{which}.onnx"
        if which == "narrow":
            monkeypatch.setattr(half, "_exact_nodes", lambda graph, ops: {})
        if which != "raw":
            fuse(model, [], **says)
        ir.save(model, paths[which], external_data=f"{which}.data")
    random = np.random.default_rng(0)
    inputs = {
        value.name: random.standard_normal(value.shape.numpy()).astype(np.float32) for value in model.graph.inputs
    }
    inputs["timestep"] = np.full_like(inputs["timestep"], 981)
    raw, right, graph = (load(paths[which]).graph for which in ("raw", "right", "narrow"))
    rounding = held_by(graph).parameter
    activations = pool_of_graphs(raw, right, inputs, rounding=rounding, dtype="float16", device="cpu")
    comparison = GraphComparison(graph, activations, inputs, constants=rounded_constants(graph, raw))
    assert comparison.faults == []
    suspect = wrong_in_types(comparison, {}, dtype="float16")
    assert suspect is not None
    assert (suspect.kind, suspect.location.op, suspect.location.path) == ("types", "::Sin", "unet.time_proj")
