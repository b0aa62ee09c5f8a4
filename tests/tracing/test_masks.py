"""Where a mask was added, the numbers beside it are lost in rounding: they agree with anything, and prove nothing."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
import torch

from pytest_sdperf.tracing.activations import ActivationIndex, is_masked
from pytest_sdperf.tracing.comparison import GraphComparison
from pytest_sdperf.tracing.held import Held
from pytest_sdperf.tracing.reference import load, pool_of_graphs

RANDOM = np.random.default_rng(0)
TOKENS, WIDTH = 6, 8
INPUTS = {"x": RANDOM.standard_normal((1, TOKENS, WIDTH)).astype(np.float32)}
CAUSAL = np.triu(np.full((TOKENS, TOKENS), np.finfo(np.float32).min, np.float32), 1)
WEIGHTS = {
    "scale": RANDOM.uniform(0.5, 1.5, WIDTH).astype(np.float32),
    "mask": CAUSAL,
    **{name: (RANDOM.standard_normal((WIDTH, WIDTH)) / 4).astype(np.float32) for name in ("wq", "wk", "wv")},
}


def attention(path, **changed):
    """Two causal attentions, one after the other, each of a scaled input."""
    x = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([1, TOKENS, WIDTH]))
    tape, result = ir.tape.Tape(), x
    given = {
        name: ir.Value(name=name, type=ir.TensorType(ir.DataType.FLOAT), const_value=ir.tensor(array, name=name))
        for name, array in (WEIGHTS | changed).items()
    }
    for number in (0, 1):
        norm = tape.op("Mul", [result, given["scale"]], name=f"norm_{number}")
        q, k, v = (tape.op("MatMul", [norm, given[name]], name=f"{name}_{number}") for name in ("wq", "wk", "wv"))
        turned = tape.op("Transpose", [k], attributes={"perm": [0, 2, 1]}, name=f"turned_{number}")
        masked = tape.op("Add", [tape.op("MatMul", [q, turned], name=f"scores_{number}"), given["mask"]])
        shares = tape.op("Softmax", [masked], attributes={"axis": -1}, name=f"shares_{number}")
        result = tape.op("MatMul", [shares, v], name=f"attended_{number}")
    for number, node in enumerate(tape.nodes):
        node.outputs[0].name, node.outputs[0].type = f"value_{number}", ir.TensorType(ir.DataType.FLOAT)
    result.name, result.shape = "y", ir.Shape([1, TOKENS, WIDTH])
    graph = ir.Graph(
        [x], [result], nodes=tape.nodes, initializers=list(given.values()), opset_imports={"": 18}, name="graph"
    )
    ir.save(ir.Model(graph, ir_version=10), path)
    return path


def compared(tmp_path, **changed):
    right = load(attention(tmp_path / "right.onnx")).graph
    activations = pool_of_graphs(right, right, INPUTS, rounding=Held().parameter, dtype="float32", device="cpu")
    graph = load(attention(tmp_path / "build.onnx", **changed)).graph
    return GraphComparison(graph, activations, INPUTS, constants={})


def test_a_right_graph_stays_right(tmp_path):
    assert compared(tmp_path).faults == []


def test_what_is_wrong_before_a_mask_is_named_before_it(tmp_path):
    """It is wrong in both attentions, so none of them says what is usual."""
    comparison = compared(tmp_path, scale=WEIGHTS["scale"] * np.linspace(1, 1.2, WIDTH, dtype=np.float32))
    assert comparison.faults[0].value.producer().name == "norm_0"


@pytest.mark.parametrize("lowest", [np.finfo(np.float32).min, -65504.0, -1e4])
def test_numbers_with_a_mask_are_no_place_of_a_reference(lowest):
    scores = torch.from_numpy(RANDOM.standard_normal((4, TOKENS, TOKENS)))
    masked = scores + torch.triu(torch.full((TOKENS, TOKENS), float(lowest), dtype=torch.float64), 1)
    assert is_masked(masked)
    activations = ActivationIndex("float32")
    activations.add("masked", "", masked, masked.float())
    activations.add("scores", "", scores, scores.float())
    assert [place.name for place in activations.places] == ["scores"]


def test_large_numbers_alone_are_no_mask():
    assert not is_masked(1e6 * (2 + torch.rand(64, generator=torch.Generator().manual_seed(0))))
    assert not is_masked(torch.softmax(torch.linspace(0, 40, 64), 0))
