"""What an engine computes otherwise than its definition is named, and cut out it shows by itself."""

from __future__ import annotations

import dataclasses
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
import torch

from pytest_sdperf.core.files.arrays import load_arrays
from pytest_sdperf.core.values.located import Location
from pytest_sdperf.core.values.recipe import SessionRecipe
from pytest_sdperf.tracing import reproduction, search
from pytest_sdperf.tracing.activations import ActivationIndex
from pytest_sdperf.tracing.comparison import GraphComparison
from pytest_sdperf.tracing.reference import load, plain_not_finite
from pytest_sdperf.tracing.search import located, wrong_in_engine, wrong_in_graph
from pytest_sdperf.tracing.section import inner_values, reveal

RANDOM = np.random.default_rng(0)
INPUTS = {"x": RANDOM.standard_normal((4, 16, 32)).astype(np.float32)}
HOW = {"dtype": "float32", "device": "cpu"}
APPROXIMATE = {"optimization.enable_gelu_approximation": "1"}


def session_of(config):
    return SessionRecipe((("CPUExecutionProvider", {}),), "ORT_ENABLE_ALL", config)


@pytest.fixture
def graph(tmp_path):
    """Two products with an activation between them."""
    x = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([4, 16, 32]))
    tape = ir.tape.Tape()
    weights = [
        ir.Value(name=name, type=ir.TensorType(ir.DataType.FLOAT), const_value=ir.tensor(array, name=name))
        for name, array in (("w", RANDOM.standard_normal((32, 32))), ("v", RANDOM.standard_normal((32, 8))))
        for array in [array.astype(np.float32)]
    ]
    first = tape.op("MatMul", [x, weights[0]], name="first")
    second = tape.op("Gelu", [first], name="activation", domain="com.microsoft")
    third = tape.op("MatMul", [second, weights[1]], name="last")
    for name, value, size in (("a", first, 32), ("b", second, 32), ("y", third, 8)):
        value.name, value.type, value.shape = name, ir.TensorType(ir.DataType.FLOAT), ir.Shape([4, 16, size])
    made = ir.Graph(
        [x], [third], nodes=tape.nodes, initializers=weights, opset_imports={"": 18, "com.microsoft": 1}, name="graph"
    )
    path = tmp_path / "model.onnx"
    ir.save(ir.Model(made, ir_version=10), path, external_data="model.onnx.data")
    return path


def compute(path, folder, config):
    """What onnxruntime computes inside."""
    folder.mkdir()
    options = onnxruntime.SessionOptions()
    for key, value in config.items():
        options.add_session_config_entry(key, value)
    names = inner_values(load(path).graph)
    assert names == ["a", "b"]
    session = onnxruntime.InferenceSession(str(reveal(path, folder, names)), options)
    return dict(zip((one.name for one in session.get_outputs()), session.run(None, INPUTS), strict=True))


def compared(path):
    return GraphComparison(load(path).graph, ActivationIndex("float32"), INPUTS, constants={})


def run(folder):
    return subprocess.run(
        [sys.executable, "reproduce.py"], cwd=folder, capture_output=True, text=True, check=False, env={"PATH": ""}
    )


def engine_fault(graph, tmp_path, config):
    comparison = compared(graph)
    comparison.faults.clear()  # there is no reference here: the graph is what it should be
    obtained = compute(graph, tmp_path / "probe", config)
    return comparison, obtained, wrong_in_engine(comparison, obtained, **HOW)


def test_an_activation_that_an_engine_approximates(graph, tmp_path):
    comparison, obtained, suspect = engine_fault(graph, tmp_path, APPROXIMATE)
    assert (suspect.kind, suspect.location.node, suspect.location.op) == ("engine", "activation", "com.microsoft::Gelu")
    assert [one.value for one in suspect.inputs] == ["a"]
    assert all(one.error <= one.limit for one in suspect.inputs)
    assert (suspect.last.node, suspect.more, suspect.places) == ("first", 0, 3)
    real = reproduction.real(comparison, suspect, obtained, **HOW)
    random = reproduction.drawn(comparison, suspect, real, seed=0, **HOW)
    assert not np.array_equal(random["inputs"]["a"], real["inputs"]["a"])
    for number, (config, status) in enumerate(((APPROXIMATE, 1), ({}, 0))):
        folder = tmp_path / f"files-{number}"
        reproduction.write(folder, graph, suspect, random, session_of(config))
        assert sorted(path.name for path in folder.iterdir()) == [
            "expected.npz", "inputs.npz", "reproduce.py", "subgraph.onnx"
        ]  # fmt: skip
        done = run(folder)
        # A library may ask the shell for a program that a machine lacks.
        said = [line for line in done.stderr.splitlines() if not line.startswith("sh: ")]
        assert (done.returncode, said) == (status, [])
        assert done.stdout.startswith(f"onnxruntime {onnxruntime.__version__} CPUExecutionProvider: error ")
        assert list(load_arrays(folder / "inputs.npz")) == ["a"]


def test_an_engine_that_is_right(graph, tmp_path):
    _, _, suspect = engine_fault(graph, tmp_path, {})
    assert (suspect.kind, suspect.location, suspect.places) == ("vanished", None, 3)


def test_an_output_that_was_compared_with_nothing_is_not_called_right(graph, tmp_path):
    comparison = compared(graph)
    comparison.faults.clear()
    obtained = compute(graph, tmp_path / "probe", {})
    begin = "Where it goes wrong cannot be told: its output y was compared with nothing. "
    own = {name: array for name, array in obtained.items() if name != "y"}
    shorter = dict(own, y=obtained["y"][:2])
    for seen, why in (
        (own, "The engine gave nothing of that name."),
        (shorter, "It has shape (2, 16, 8), and by its definition (4, 16, 8)."),
    ):
        suspect = wrong_in_engine(comparison, seen, **HOW)
        assert (suspect.kind, suspect.value, suspect.told) == ("hidden", None, begin + why)


def test_an_operator_without_a_definition_is_named_and_nothing_blamed(graph, tmp_path):
    model = ir.load(graph)
    last = next(node for node in model.graph if node.name == "last")
    last.domain, last.op_type = "acme", "Secret"
    comparison = GraphComparison(model.graph, ActivationIndex("float32"), INPUTS, constants={})
    comparison.faults.clear()
    suspect = wrong_in_engine(comparison, compute(graph, tmp_path / "probe", {}), **HOW)
    assert (suspect.kind, suspect.value, suspect.places) == ("hidden", None, 2)
    assert located(suspect, "unet").told == (
        "Where it goes wrong cannot be told: its output y was compared with nothing. It comes from acme::Secret last, "
        "of which no definition was written down."
    )


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_where_plain_torch_is_not_finite_nothing_is_compared(graph, tmp_path, bad):
    """Neither an engine that is not finite either is right there, nor one that is finite is wrong."""
    comparison = compared(graph)
    comparison.faults.clear()
    for value in [one for one in comparison.plain if one.name in ("b", "y")]:
        comparison.plain[value] = torch.full_like(comparison.plain[value], bad)
    obtained = compute(graph, tmp_path / "probe", {})
    for seen in (obtained, {name: array * np.float32(np.nan) for name, array in obtained.items() if name != "a"}):
        suspect = wrong_in_engine(comparison, seen, **HOW)
        assert (suspect.kind, suspect.value) == ("hidden", None)
        assert suspect.told == (
            "Where it goes wrong cannot be told: its output y was compared with nothing. Plain torch is not finite "
            "there."
        )


def test_where_the_node_alone_is_not_finite_neither_it_nor_what_it_reads_is_blamed(graph, tmp_path, monkeypatch):
    comparison = compared(graph)
    comparison.faults.clear()
    obtained = compute(graph, tmp_path / "probe", APPROXIMATE)
    made = search.by_definition
    monkeypatch.setattr(search, "by_definition", lambda *given, **how: (made(*given, **how)[0], math.inf))
    suspect = wrong_in_engine(comparison, obtained, **HOW)
    assert (suspect.kind, suspect.value) == ("hidden", None)
    assert suspect.told == (
        "The first value beyond its limit is b. Computed from what its node really read, plain torch is not finite "
        "there: nobody can tell whether the node is wrong or what it reads."
    )


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_a_place_without_a_reference_error_is_a_gap_and_holds_nothing(bad):
    activations, exact = ActivationIndex("float16"), torch.from_numpy(RANDOM.standard_normal((4, 8)))
    broken, mask = exact.half(), torch.tensor([[0.0, -3.0e38]] * 4)
    broken[0, 0] = bad
    activations.add("mask", "net.mask", mask, mask.half(), role="Where")
    activations.add("inner", "net.0", exact, broken, role="MatMul")
    assert plain_not_finite(activations) is None
    activations.add("out", "", exact, broken, exposed=True)
    assert [gap.name for gap in activations.gaps] == ["inner", "out"]
    assert activations.find(exact) is None
    assert plain_not_finite(activations) == Location("inner", "", "MatMul", "net.0", math.inf, math.inf)


def test_errors_that_come_from_before(graph, tmp_path):
    comparison = compared(graph)
    comparison.faults.clear()
    obtained = compute(graph, tmp_path / "probe", {})
    wrong = obtained["a"] * np.float32(1.01)
    shifted = dict(obtained, b=torch.nn.functional.gelu(torch.from_numpy(wrong)).numpy())
    shifted["y"] = shifted["b"] @ load(graph).graph.initializers["v"].const_value.numpy()
    shifted["a"] = wrong
    suspect = wrong_in_engine(comparison, shifted, **HOW)
    assert (suspect.kind, suspect.location.node) == ("engine", "first")
    hidden = {name: array for name, array in shifted.items() if name != "a"}
    assert wrong_in_engine(comparison, hidden, **HOW).location.node == "activation"


def test_a_graph_without_any_reference_is_not_called_right(graph, tmp_path):
    suspect = wrong_in_graph(compared(graph))
    assert suspect.kind == "graph"


# onnxruntime as the program sees it, with a node that reads more of the arena than was written.
FAKE = """
import types
import numpy as np

__version__ = "0"
SessionOptions = type("SessionOptions", (), {{"add_session_config_entry": lambda *given: None}})
GraphOptimizationLevel = types.SimpleNamespace(ORT_ENABLE_ALL=99)


class InferenceSession:
    def __init__(self, path, options, providers):
        self.arena = {{}}

    def get_providers(self):
        return ["CPUExecutionProvider"]

    def run(self, names, feeds):
        assert names == ["b"]
        (size,) = feeds.pop("used_numbers")
        read = self.arena.get({block}, 0.0)
        self.arena.update({{block: np.nan for block in (256, 2**20, 2**26) if block / 2 < size <= block}})
        expected = np.load("expected.npz")["expected"]
        return [expected + np.float32(read)]
"""


@pytest.mark.parametrize(("block", "status"), [(256, 1), (2**20, 1), (2**26, 1), (2**40, 0)])
def test_a_node_that_reads_memory_that_nobody_wrote(graph, tmp_path, block, status):
    """A fresh process has zeros there: the first call is right, and later ones find what others left."""
    comparison, obtained, suspect = engine_fault(graph, tmp_path, APPROXIMATE)
    real = reproduction.real(comparison, suspect, obtained, **HOW)
    folder = tmp_path / "files"
    reproduction.write(folder, graph, suspect, real, session_of({}))
    (folder / "onnxruntime.py").write_text(FAKE.format(block=block))
    done = run(folder)
    assert (done.returncode, done.stderr) == (status, "")
    assert ("error inf" in done.stdout) == bool(status)


def test_what_is_put_into_memory_is_computed_in_every_call(graph, tmp_path):
    comparison, obtained, suspect = engine_fault(graph, tmp_path, APPROXIMATE)
    real = reproduction.real(comparison, suspect, obtained, **HOW)
    reproduction.write(tmp_path / "files", graph, suspect, real, session_of({}))
    options = onnxruntime.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "profile")
    session = onnxruntime.InferenceSession(str(tmp_path / "files/subgraph.onnx"), options)
    session.run(["b"], {**real["inputs"], "used_numbers": np.array([1000], np.int64)})
    profile = Path(session.end_profiling()).read_text()
    assert '"use_memory_kernel_time"' in profile
    assert '"free_memory_kernel_time"' in profile


@pytest.mark.parametrize("provider", ["TensorrtExecutionProvider", "MIGraphXExecutionProvider"])
def test_a_graph_that_is_compiled_for_its_shapes_is_left_alone(graph, tmp_path, provider):
    comparison, obtained, suspect = engine_fault(graph, tmp_path, APPROXIMATE)
    real = reproduction.real(comparison, suspect, obtained, **HOW)
    session = dataclasses.replace(session_of({}), providers=((provider, {}), ("CPUExecutionProvider", {})))
    reproduction.write(tmp_path / "files", graph, suspect, real, session)
    assert [one.name for one in onnx.load(tmp_path / "files/subgraph.onnx").graph.input] == ["a"]
    assert "for numbers in [0]:" in (tmp_path / "files/reproduce.py").read_text()
