"""How many drawn faults the comparison in float64 finds, and where it says that they are.

    python benchmarks/detection.py                       # 400 faults of seed 0 in four builds, about half an hour
    python benchmarks/detection.py --seed=7 --faults=40  # others, fewer
    python benchmarks/detection.py --processes=16        # each of them takes one core and 1 GB

Each fault changes one site of a build by `bias-add` in float16, whose noise would hide it: an operator, an attribute, a
weight, a constant or a wire, drawn at random from all that its graph has. The comparison is that of
`suites/test_equivalence.py`, and the place is what `tracing/comparison.py` names: the `node` itself, or another one of
the same `module`. What cannot be computed any more is `refused`. A fault after which the graph computes the same to
1e-13 for two other inputs is none.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import multiprocessing
import platform
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "tests"), str(HERE.parent / "tests/fusing")]

import numpy as np  # noqa: E402, TID253 - below the path of the graphs
import onnx_ir as ir  # noqa: E402, TID253
import rewriting  # noqa: E402
import torch  # noqa: E402, TID253

from pytest_sdperf.checks.equivalence.check import LIMIT  # noqa: E402
from pytest_sdperf.fusing import tidy  # noqa: E402
from pytest_sdperf.fusing.fusion_graph import path_of  # noqa: E402
from pytest_sdperf.tracing import exact  # noqa: E402
from pytest_sdperf.tracing.activations import ActivationIndex  # noqa: E402
from pytest_sdperf.tracing.comparison import GraphComparison  # noqa: E402
from pytest_sdperf.tracing.computer import definition_of  # noqa: E402
from pytest_sdperf.tracing.held import Held, held_by, rounded_constants  # noqa: E402
from pytest_sdperf.tracing.reference import pool_of_graphs  # noqa: E402

GRAPHS = (
    "torch-2.13/sd15-thin-unet-dynamo-18-dynamic",
    "torch-2.13/sd15-thin-text_encoder-dynamo-18-dynamic",
    "torch-2.13/sd15-thin-vae_decoder-dynamo-18-dynamic",
    "torch-2.13/sdxl-thin-unet-dynamo-18-dynamic",
)
SIZE = {"batch": 2, "latent_height": 16, "latent_width": 24}  # 2 x 3 tokens at the deepest level
SAME = 1e-13
AS_IS = Held().parameter
FAMILIES = (("Add", "Sub", "Mul", "Div"), ("Sigmoid", "Tanh", "Erf"), ("Sin", "Cos"), ("Gelu", "FastGelu"))
FACTORS = (0.1, 0.5, 0.99, 1.01, 2.0, 10.0)


@dataclass(frozen=True)
class Fault:
    """One change of a graph.

    Attributes:
        kind: What was changed.
        node: Name of the first output of its node.
        says: What was done.
        change: Does it to a clone.
    """

    kind: str
    node: str
    says: str
    change: Callable[[ir.Node], None]


def replaced(node: ir.Node, number: int, array: np.ndarray) -> None:
    """Give a node another weight, which is its own."""
    value = node.inputs[number]
    assert value is not None
    assert node.graph is not None
    tensor = ir.tensor(array.astype(value.const_value.numpy().dtype), name=f"{value.name}.of.{node.outputs[0].name}")
    own = ir.Value(name=tensor.name, type=value.type, shape=value.shape, const_value=tensor)
    node.graph.register_initializer(own)
    node.replace_input_with(number, own)


def attributes(node: ir.Node, draw: random.Random) -> Iterator[Fault]:
    """Draw another value of a number of a node."""
    said = [one for one in node.attributes.values() if one.type in (ir.AttributeType.FLOAT, ir.AttributeType.INT)]
    if node.op_type in ("Cast", "Constant") or not said:
        return
    one = draw.choice(said)
    if one.type == ir.AttributeType.FLOAT:
        value = one.value * draw.choice(FACTORS)
        make = ir.AttrFloat32
    else:
        value = draw.choice(
            [other for other in (one.value - 1, one.value + 1, one.value * 2, -1) if other != one.value]
        )
        make = ir.AttrInt64  # type: ignore[assignment]
    says = f"{one.name} {one.value} -> {value}"
    name = one.name
    yield Fault("attribute", node.outputs[0].name, says, lambda twin: twin.attributes.add(make(name, value)))


def operators(node: ir.Node, draw: random.Random) -> Iterator[Fault]:
    """Draw another operator that takes as much."""
    family = next((family for family in FAMILIES if node.op_type in family), ())
    others = [one for one in family if one != node.op_type]
    if others and not (node.op_type in FAMILIES[0] and not floats(node.outputs[0])):
        other = draw.choice(others)

        def change(twin: ir.Node) -> None:
            twin.op_type = other

        yield Fault("operator", node.outputs[0].name, f"{node.op_type} -> {other}", change)


def floats(value: ir.Value | None) -> bool:
    """Whether a value holds floating-point numbers, as far as is known."""
    return value is not None and value.dtype is not None and value.dtype.is_floating_point()


def weights(node: ir.Node, draw: random.Random) -> Iterator[Fault]:
    """Draw another weight: one element, one row, or all of it."""
    places = [number for number, value in enumerate(node.inputs) if value is not None and value.const_value is not None]
    places = [number for number in places if floats(node.inputs[number])]
    if not places:
        return
    number = draw.choice(places)
    array = np.array(node.inputs[number].const_value.numpy(), dtype=np.float64)
    if array.size == 1:
        factor = draw.choice(FACTORS)
        says, kind, other = f"input {number} times {factor}", "constant", array * factor
    else:
        kind = "weight"
        says, other = changed(array, draw)
        says = f"input {number}: {says}"
    yield Fault(kind, node.outputs[0].name, says, lambda twin: replaced(twin, number, other))


def changed(array: np.ndarray, draw: random.Random) -> tuple[str, np.ndarray]:
    """Return a weight that differs at one site."""
    other, axis = array.copy(), draw.randrange(array.ndim)
    rows = np.moveaxis(other, axis, 0)
    one, two = draw.sample(range(len(rows)), 2) if len(rows) > 1 else (0, 0)
    match draw.choice(("element", "row", "exchange", "all", "zero")):
        case "element":
            place = tuple(draw.randrange(size) for size in array.shape)
            other[place] = other[place] * 2 + 0.1
            return f"element {place}", other
        case "row":
            rows[one] *= draw.choice(FACTORS)
            return f"row {one} of axis {axis}", other
        case "exchange":
            rows[[one, two]] = rows[[two, one]]
            return f"rows {one} and {two} of axis {axis} exchanged", other
        case "zero":
            rows[one] = 0
            return f"row {one} of axis {axis} is zero", other
        case _:
            factor = draw.choice(FACTORS)
            return f"all times {factor}", other * factor


def wires(node: ir.Node, draw: random.Random) -> Iterator[Fault]:
    """Draw another value of the same shape for an input: one that was computed before, or another input."""
    places = [number for number, value in enumerate(node.inputs) if floats(value) and value.const_value is None]
    if not places:
        return
    number = draw.choice(places)
    value = node.inputs[number]
    graph = node.graph
    before = []
    for other in graph:
        if other is node:
            break
        before += [one for one in other.outputs if one is not value and floats(one) and one.shape == value.shape]
    if value.shape is None or not before:
        return
    name = draw.choice(before).name

    def change(twin: ir.Node) -> None:
        other = next(one for each in twin.graph for one in each.outputs if one.name == name)
        twin.replace_input_with(number, other)

    yield Fault("wire", node.outputs[0].name, f"input {number} {value.name} -> {name}", change)


COLUMNS = ("node", "module", "elsewhere", "not placed", "refused", "missed", "the same function")
KINDS = {"attribute": attributes, "operator": operators, "weight": weights, "wire": wires}


def drawn(graph: ir.Graph, draw: random.Random) -> Fault:
    """Return one fault: its kind first, then its node, so that rare kinds come as often."""
    nodes = [node for node in graph if definition_of(node) is not None]
    while True:
        kind = draw.choice(list(KINDS))
        for fault in KINDS[kind](draw.choice(nodes), draw):
            return fault


@dataclass
class Scene:
    """A build, and what it is compared with."""

    name: str
    model: ir.Model
    constants: dict[float, float]
    inputs: list[dict[str, np.ndarray]]
    outputs: dict[str, np.ndarray]
    index: ActivationIndex

    @classmethod
    def of(cls, name: str) -> Scene:
        """Fuse a graph with the whole ladder, in float16, and compute its export."""
        raw, plain, model = (rewriting.load(name) for _ in range(3))
        tidy.unify(raw)
        rewriting.fuse(plain, [], to_float16=True)
        rewriting.build(model, rewriting.LAST)
        inputs = [rewriting.draw_inputs(raw, SIZE, seed=seed) for seed in range(3)]
        for number, one in enumerate(inputs):
            if "timestep" in one:
                one["timestep"] = np.full_like(one["timestep"], 0.7 + number)
        rounding, constants = held_by(model.graph).parameter, rounded_constants(model.graph, raw.graph)
        outputs = exact.of_graph(raw.graph, inputs[0], rounding)
        how = {"rounding": rounding, "dtype": "float16", "device": "cpu"}
        index = pool_of_graphs(raw.graph, plain.graph, inputs[0], **how)
        return cls(name, model, constants, inputs, outputs, index)

    def error(self, graph: ir.Graph) -> float:
        """Return the largest relative L2 distance of an output to that of the export."""
        found = exact.of_graph(graph, self.inputs[0], AS_IS, self.constants)
        return max(away(found[name], array) for name, array in self.outputs.items())

    def planted(self, fault: Fault) -> tuple[ir.Graph, ir.Node]:
        """Return a clone with a fault, and the node that has it."""
        twin = self.model.clone()
        node = next(one for one in twin.graph if one.outputs[0].name == fault.node)
        fault.change(node)
        return twin.graph, node

    def changes_nothing(self, graph: ir.Graph) -> bool:
        """Whether a graph computes what the build does, for inputs that it was not compared with."""
        for inputs in self.inputs[1:]:
            one, other = (exact.of_graph(each, inputs, AS_IS, self.constants) for each in (graph, self.model.graph))
            if any(not away(one[name], array) <= SAME for name, array in other.items()):
                return False
        return True


def away(obtained: np.ndarray, expected: np.ndarray) -> float:
    """Return the relative L2 distance; infinite where shapes differ or a number is not finite."""
    if obtained.shape != expected.shape:
        return np.inf
    error = float(np.linalg.norm(obtained - expected) / np.linalg.norm(expected))
    return error if np.isfinite(error) else np.inf


def outcome(scene: Scene, fault: Fault) -> tuple[str, str]:
    """Return what became of a fault, and where it was said to be."""
    graph, node = scene.planted(fault)
    try:
        error = scene.error(graph)
    except exact.NotDefinedError:
        return "refused", ""
    if error <= LIMIT:
        return ("the same function", "") if scene.changes_nothing(graph) else ("missed", f"{error:.1e}")
    found = GraphComparison(graph, scene.index, scene.inputs[0], constants=scene.constants)
    if not found.faults:
        return "not placed", ""
    named = found.faults[0].value.producer()
    assert named is not None
    said, meant = path_of(named), path_of(node)
    if named is node:
        return "node", said
    return ("module" if holds(said, meant) else "elsewhere"), f"{named.op_type} {said}"


def holds(said: str, meant: str) -> bool:
    """Whether two parts are of one module: the projections of an attention, the norms of a block."""
    return said.rpartition(".")[0].startswith(meant.rpartition(".")[0]) or meant.startswith(said)


def row(name: str, seed: str, faults: int) -> tuple[str, list[str], dict[str, collections.Counter[str]]]:
    """Draw faults of one build; return a line about the build, what was not named exactly, and counts by kind."""
    torch.set_num_threads(1)
    scene = Scene.of(name)
    draw = random.Random(f"{seed}-{name}")
    sound = GraphComparison(scene.model.graph, scene.index, scene.inputs[0], constants=scene.constants)
    told = f"{name}: the build is {scene.error(scene.model.graph):.1e} away, {len(sound.differing())} values differ"
    table: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    lines = []
    for _ in range(faults):
        fault = drawn(scene.model.graph, draw)
        became, where = outcome(scene, fault)
        table[fault.kind][became] += 1
        if became not in ("node", "module", "the same function", "refused"):
            node = next(one for one in scene.model.graph if one.outputs[0].name == fault.node)
            lines.append(f"  {became}: {node.op_type} {path_of(node)}: {fault.says}: {where}")
    return told, lines, dict(table)


def main() -> None:
    """Draw faults, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--faults", type=int, default=400)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--graphs", nargs="*", default=GRAPHS)
    arguments = parser.parse_args()
    names = ", ".join(f"{name} {version(name)}" for name in ("torch", "onnx_ir", "numpy"))
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}; {names}", flush=True)
    table: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    parts = max(1, arguments.processes // len(arguments.graphs))
    jobs = [(name, f"{arguments.seed}.{part}") for part in range(parts) for name in arguments.graphs]
    with concurrent.futures.ProcessPoolExecutor(arguments.processes, multiprocessing.get_context("spawn")) as pool:
        done = [pool.submit(row, *job, max(1, arguments.faults // len(jobs))) for job in jobs]
        for one in concurrent.futures.as_completed(done):
            told, lines, counts = one.result()
            print("\n".join([told, *lines]), flush=True)
            for kind, each in counts.items():
                table[kind].update(each)
    print("".join(f"{one:>18}" for one in ("", *COLUMNS)))
    for kind, counts in sorted(table.items()):
        print(f"{kind:>18}" + "".join(f"{counts[one]:>18}" for one in COLUMNS))


if __name__ == "__main__":
    main()
