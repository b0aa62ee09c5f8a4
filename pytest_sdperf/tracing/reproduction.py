"""Files that show a fault by themselves: a piece of a graph, its inputs, what it should give, and a short program."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch

from pytest_sdperf.core.files.arrays import save_arrays
from pytest_sdperf.core.values.recipe import SessionRecipe
from pytest_sdperf.tracing.comparison import GraphComparison
from pytest_sdperf.tracing.redrawn import numbers_like
from pytest_sdperf.tracing.search import Arrays, SuspectNode, by_definition
from pytest_sdperf.tracing.section import SUBGRAPH, USED, boundary, cut, use_memory, weights_of

INPUTS, EXPECTED, SCRIPT = "inputs.npz", "expected.npz", "reproduce.py"
# Sizes of what is put into memory before a call, in float32: from 1 kB to 256 MB, so that each block that a node may be
# given by the arena of its session held NaN before, wherever it is; on a GPU, which is fast, in finer steps.
_NUMBERS = "[1, *(round(2 ** (step / {steps})) for step in range({steps} * 8, {steps} * 26 + 1)), 1]"
# Others compile a graph anew for every size, or have no arena of onnxruntime's.
_WITH_ARENA = frozenset({"CPUExecutionProvider", "CUDAExecutionProvider", "ROCMExecutionProvider"})
_PROGRAM = '''\
"""Exit status 1 while the output of {subgraph} is farther from expected.npz than {limit:.2e}, else 0."""

import sys
from pathlib import Path

import numpy as np
import onnxruntime

here = Path(__file__).resolve().parent
options = onnxruntime.SessionOptions()
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.{level}
{config}session = onnxruntime.InferenceSession(str(here / "{subgraph}"), options, providers={providers})
inputs = dict(np.load(here / "inputs.npz"))
expected = np.load(here / "expected.npz")["expected"].astype(np.float64)


def error_after(numbers):
    """Call it; beside it the graph takes so many NaN out of the same memory and gives them back, for later calls."""
    used = {{"{used}": np.array([numbers], np.int64)}} if numbers else {{}}
    obtained = session.run(["{output}"], {{**inputs, **used}})[0].astype(np.float64)
    far = np.linalg.norm(obtained - expected) / np.linalg.norm(expected)
    return far if np.isfinite(far) else np.inf


error = 0.0
for numbers in {numbers}:
    error = max(error, error_after(numbers))
    if error > {limit!r}:
        break
print(f"onnxruntime {{onnxruntime.__version__}} {{session.get_providers()[0]}}: error {{error:.2e}}, limit {limit:.2e}")
sys.exit(0 if error <= {limit!r} else 1)
'''


def real(
    comparison: GraphComparison, suspect: SuspectNode, obtained: Arrays, *, dtype: str, device: str
) -> dict[str, Any] | None:
    """Return `inputs`, `weights`, `expected` and `limit` with what the graph and the engine really hold.

    Of a wrong graph the inputs are those of the reference, and what is expected is what it has; of a wrong engine the
    inputs are those that it had, and what is expected is what the definitions of the nodes make of these.
    """
    assert suspect.value is not None
    inputs = {}
    of_graph = suspect.kind in ("graph", "types")
    for value in boundary(suspect.nodes):
        tensor = comparison.rounded(value) if of_graph else comparison.plain.get(value)
        seen = obtained.get(str(value.name)) if not of_graph else None
        if seen is None and tensor is None:
            return None
        inputs[str(value.name)] = seen if seen is not None else tensor.cpu().numpy()  # type: ignore[union-attr]
    weights = weights_of(suspect.nodes)
    if of_graph:
        found, exact = comparison.agreeing.get(suspect.value), comparison.exact[suspect.value]
        if exact is None or found is None:
            return None
        limit = found.place.limit
        if suspect.kind == "graph":  # the rounding of these nodes alone, not of all before them
            made = by_definition(comparison, suspect.nodes, suspect.value, inputs, dtype=dtype, device=device)
            limit = min(limit, made[1]) if made is not None else limit
        return {"inputs": inputs, "weights": weights, "expected": exact.cpu().numpy(), "limit": limit}
    return _defined(comparison, suspect, inputs, weights, dtype=dtype, device=device)


def drawn(
    comparison: GraphComparison, suspect: SuspectNode, like: Mapping[str, Any], *, seed: int, dtype: str, device: str
) -> dict[str, Any] | None:
    """Return the same with random numbers in place of weights and inputs, each with their mean and deviation.

    Args:
        comparison: Of the graph.
        suspect: A node that an engine computes otherwise than its definition says.
        like: What `real` returned.
        seed: Of the numbers.
        dtype: The type that is tested.
        device: torch device to compute on.
    """
    generator = np.random.default_rng(seed)
    inputs, weights = (
        {name: numbers_like(array, generator) for name, array in like[kind].items()} for kind in ("inputs", "weights")
    )
    return _defined(comparison, suspect, inputs, weights, dtype=dtype, device=device)


def _defined(
    comparison: GraphComparison, suspect: SuspectNode, inputs: Arrays, weights: Arrays, *, dtype: str, device: str
) -> dict[str, Any] | None:
    assert suspect.value is not None
    made = by_definition(comparison, suspect.nodes, suspect.value, {**inputs, **weights}, dtype=dtype, device=device)
    if made is None or not bool(torch.isfinite(made[0]).all()):
        return None
    return {"inputs": inputs, "weights": weights, "expected": made[0].numpy(), "limit": made[1]}


def write(folder: Path, source: Path, suspect: SuspectNode, content: Mapping[str, Any], session: SessionRecipe) -> None:
    """Write the files.

    Args:
        folder: It is made.
        source: The graph that a piece is cut out of.
        suspect: Which piece.
        content: What `real` or `drawn` returned.
        session: How the engine makes its session.
    """
    assert suspect.value is not None
    folder.mkdir(parents=True, exist_ok=True)
    model = cut(source, suspect.nodes, inputs=content["inputs"], weights=content["weights"], output=suspect.value)
    providers = {name for name, _ in session.providers}
    arenas, on_cpu = providers <= _WITH_ARENA, providers <= {"CPUExecutionProvider"}
    if arenas:
        use_memory(model)
    onnx.save(model, folder / SUBGRAPH)
    save_arrays(folder / INPUTS, content["inputs"])
    save_arrays(folder / EXPECTED, {"expected": content["expected"]})
    config = "".join(f"options.add_session_config_entry({key!r}, {value!r})\n" for key, value in session.config.items())
    program = _PROGRAM.format(
        subgraph=SUBGRAPH,
        limit=content["limit"],
        level=session.graph_optimization_level,
        config=config,
        providers=[(name, dict(options)) for name, options in session.providers],
        used=USED,
        output=suspect.value.name,
        numbers=_NUMBERS.format(steps=2 if on_cpu else 4) if arenas else "[0]",
    )
    (folder / SCRIPT).write_text(program, encoding="utf-8")
