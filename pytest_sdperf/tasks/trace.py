"""Find where a component begins to be wrong: make a graph tell what is inside, and compare that node by node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_sdperf.core.files.arrays import load_arrays
from pytest_sdperf.core.values.located import Located
from pytest_sdperf.core.values.recipe import SessionRecipe
from pytest_sdperf.tasks import TaskContext
from pytest_sdperf.tasks._execution import ShowingFiles

if TYPE_CHECKING:
    import onnx_ir as ir

    from pytest_sdperf.tracing.activations import ActivationIndex
    from pytest_sdperf.tracing.exact import Rounding

_DRAWS = 3  # sets of random numbers that are tried in place of weights


@dataclass(frozen=True)
class Reveal:
    """Let a graph tell its inner values.

    Attributes:
        graph: Its path.
        share: Every how many of them is an output (1 for all).
        names: Those that are; empty for all that nodes hand on.
    """

    graph: Path
    share: int = 1
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Revealed:
    """A graph that tells its inner values.

    Attributes:
        path: Its path.
        values: How many it tells.
    """

    path: str
    values: int


@dataclass(frozen=True)
class FindNode:
    """Find the first wrong node of a graph.

    Attributes:
        component: Whose graph it is.
        graph: Its path.
        graphs: A graph in which nothing is fused, in float32 and in the type that is tested; empty to compare with
            torch's modules.
        inputs: File (npz) with the inputs.
        obtained: File (npz) with what an engine computed inside; None looks at the graph alone.
        expected, rough: Files (npz) with the outputs of torch in the reference type and in the type that is tested,
            with `inside.npz` beside them; None without.
        dtype: The type that is tested.
        device: On which definitions are computed, as torch calls it.
        session: How the engine makes its session; None where nobody knows.
    """

    component: str
    graph: Path
    graphs: tuple[Path, ...]
    inputs: Path
    obtained: Path | None
    expected: Path | None
    rough: Path | None
    dtype: str
    device: str
    session: SessionRecipe | None

    @property
    def of_torch(self) -> list[Path]:
        """Files with the outputs of torch, as far as there are any."""
        return [path for path in (self.expected, self.rough) if path is not None]


@dataclass(frozen=True)
class NodeFound:
    """What comparing node by node found.

    Attributes:
        located: Where it begins to be wrong, without its reproduction.
        files: Folders with files that may show the fault, to be tried in this order.
    """

    located: Located
    files: tuple[ShowingFiles, ...] = ()


def reveal(request: Reveal, context: TaskContext) -> Revealed:
    """Write a graph again with inner values as outputs."""
    import onnx_ir as ir

    from pytest_sdperf.fusing import node_types
    from pytest_sdperf.tracing.section import inner_values
    from pytest_sdperf.tracing.section import reveal as write

    names: Sequence[str] = request.names
    if not names:
        model = ir.load(request.graph)
        node_types.record(model.graph)
        names = inner_values(model.graph)[:: request.share]
    return Revealed(str(write(request.graph, context.out_dir, names)), len(names))


def find(request: FindNode, context: TaskContext) -> NodeFound:
    """Compare a build with its reference node by node, and write files that show the first wrong one."""
    from pytest_sdperf.tracing import held, reference, search
    from pytest_sdperf.tracing.comparison import GraphComparison

    dtype, device, component = request.dtype, request.device, request.component
    inputs = load_arrays(request.inputs)
    obtained = load_arrays(request.obtained) if request.obtained is not None else {}
    context.say(f"comparing the {component} with its reference, node by node")
    graph = reference.load(request.graph).graph
    raw, plain = (reference.load(path).graph for path in request.graphs) if request.graphs else (None, None)
    activations = _activations(request, inputs, raw, plain, held.rounding_of(graph))
    if isinstance(activations, Located):
        return NodeFound(activations)
    comparison = GraphComparison(
        graph, activations, inputs, constants=held.rounded_constants(graph, raw), device=device
    )
    suspect = (
        search.wrong_in_graph(comparison)
        or search.wrong_in_types(comparison, obtained, dtype=dtype)
        or search.wrong_in_engine(comparison, obtained, dtype=dtype, device=device)
    )
    files = tuple(_files(comparison, suspect, obtained, request, context.out_dir))
    return NodeFound(search.located(suspect, component), files)


def _activations(
    request: FindNode, inputs: Mapping[str, Any], raw: ir.Graph | None, plain: ir.Graph | None, rounding: Rounding
) -> ActivationIndex | Located:
    """Return the values of a reference, or what is found before a build is looked at."""
    from pytest_sdperf.tracing import insides, reference

    how: dict[str, Any] = {"dtype": request.dtype, "device": request.device}
    of_torch = request.of_torch
    if of_torch and (where := insides.plain_not_finite(*of_torch)) is not None:
        return Located(request.component, "plain", location=where)
    outputs = [load_arrays(path) for path in of_torch] or [{}, {}]
    if raw is not None and plain is not None:
        activations = reference.pool_of_graphs(raw, plain, inputs, rounding=rounding, **how)
        wrong = reference.wrong_reference(activations, *outputs, dtype=request.dtype)
        if wrong is not None:
            return Located(request.component, "export", location=wrong)
        where = reference.plain_not_finite(activations)
        if where is None:
            return activations
        if not of_torch:
            return Located(request.component, "plain", location=where)
    # An attention of torch is finite where its parts, one by one, are not.
    inside = (load_arrays(path.parent / insides.FILE) for path in of_torch)
    return reference.pool_of_modules(*inside, *outputs, **how)


def _files(comparison: Any, suspect: Any, obtained: Any, request: FindNode, folder: Path) -> Iterator[ShowingFiles]:
    """Write files that show a wrong node, those with random weights first."""
    from pytest_sdperf.tracing import reproduction

    how = {"dtype": request.dtype, "device": request.device}
    if suspect.value is None or request.session is None or suspect.kind not in ("graph", "types", "engine"):
        return
    real = reproduction.real(comparison, suspect, obtained, **how)
    if real is None:
        return
    # What a wrong graph should give is known for the weights that it has alone.
    seeds = range(_DRAWS if suspect.kind == "engine" else 0)
    drawn = (reproduction.drawn(comparison, suspect, real, seed=seed, **how) for seed in seeds)
    contents = [*(("random", one) for one in drawn if one is not None), ("real", real)]
    for number, (weights, content) in enumerate(contents):
        own = folder / f"{number}-{weights}"
        reproduction.write(own, request.graph, suspect, content, request.session)
        yield ShowingFiles(str(own), weights)
