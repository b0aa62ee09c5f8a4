"""Compute a component in float64 (`tracing.exact`): its module, its export, or a build of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from itertools import islice, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_sdperf.core.contracts import Model
from pytest_sdperf.core.errors import is_out_of_memory
from pytest_sdperf.core.files.arrays import save_arrays
from pytest_sdperf.core.values import Workload
from pytest_sdperf.core.values.located import Located
from pytest_sdperf.tasks import TaskContext
from pytest_sdperf.tracing.held import Held

if TYPE_CHECKING:
    import numpy as np

FILE = "outputs.npz"
LARGE, SMALL = 3.0, 0.3  # factors of the first and the last image of a batch
# An angle is a timestep times a frequency in float32: what its last bit moves grows with the timestep.
MOST, INSTEAD = 100.0, 1.0
_SAID = 3  # differences between two files


@dataclass(frozen=True)
class ComputeExactly:
    """One component.

    Attributes:
        model: Catalog name.
        component: One of its components.
        workload: Its inputs have these shapes.
        weights: File (safetensors) of a module; None computes a graph.
        graph: File (ONNX) of a graph; None computes a module.
        held: How the file of a build holds parameters; None for the graph's own way.
        quantized: That file, where some are quantized.
        export: What the graph was made of, whose constants count; None where nobody has it.
        full: The same graph for another workload, which is compared with it; None where there is none.
        full_workload: That of `full`.
        device: Where torch computes: `cpu`, or `cuda`, unless it runs out of memory or knows less there.
    """

    model: str
    component: str
    workload: Workload
    weights: Path | None = None
    graph: Path | None = None
    held: Held | None = None
    quantized: Path | None = None
    export: Path | None = None
    full: Path | None = None
    full_workload: Workload | None = None
    device: str = "cpu"


@dataclass(frozen=True)
class ExactOutputs:
    """What came of it.

    Attributes:
        unknown: Node that has no definition, and why; then there are no outputs.
        held: How the graph holds parameters.
        differences: What tells `full` from it; the first ones.
    """

    unknown: str = ""
    held: Held = field(default_factory=Held)
    differences: tuple[str, ...] = ()


@dataclass(frozen=True)
class FindFirst:
    """Where a graph begins to be another function.

    Attributes:
        model: Catalog name.
        component: One of its components.
        workload: Its inputs have these shapes.
        graph: File (ONNX) of the graph.
        export: That of what it was made of; None for a module.
        weights: File (safetensors) of the module.
    """

    model: str
    component: str
    workload: Workload
    graph: Path
    export: Path | None
    weights: Path | None


@dataclass(frozen=True)
class FirstFound:
    """What came of it.

    Attributes:
        located: The first place; None where every value agrees.
    """

    located: Located | None


def run(request: ComputeExactly, context: TaskContext) -> ExactOutputs:
    """Write the outputs as `outputs.npz`, by name, in float64."""
    import onnx_ir as ir

    from pytest_sdperf.tracing import exact, held

    model = context.catalog.models.get(request.model)
    what = "module" if request.graph is None else "graph"
    context.say(f"computing the {what} of {request.model} {request.component} in float64")
    inputs = inputs_of(model, request.component, request.workload)
    graph = ir.load(request.graph).graph if request.graph else None
    differences = tuple(islice(_differences(request, graph), _SAID))
    own = held.held_by(graph) if graph is not None else Held()
    quantized = held.quantized_of(ir.load(request.quantized).graph) if request.quantized else ()
    rounding = partial((request.held or Held()).parameter, quantized=quantized)

    def outputs(device: str) -> dict[str, np.ndarray[Any, Any]]:
        if graph is not None:
            export = ir.load(request.export).graph if request.export else None
            return exact.of_graph(graph, inputs, rounding, held.rounded_constants(graph, export), device=device)
        module = model.module(request.component, weights=request.weights).eval()
        specs = model.outputs(request.component, request.workload)
        found = exact.of_module(module, list(inputs.values()), rounding, device=device)
        return {spec.name: array for spec, array in zip(specs, found, strict=True)}

    unknown = ""
    try:
        found = outputs(request.device)
    except Exception as error:  # noqa: BLE001 - what torch and a model's own module may raise
        if request.device != "cpu":
            return run(dataclasses.replace(request, device="cpu"), context)
        unknown = _why_not(error)
    else:
        save_arrays(context.out_dir / FILE, found)
    return ExactOutputs(unknown, own, differences)


def find(request: FindFirst, context: TaskContext) -> FirstFound:
    """Compare a graph with what it was made of, value by value in float64."""
    from pytest_sdperf.tracing import held, reference, search
    from pytest_sdperf.tracing.comparison import GraphComparison

    model, component = context.catalog.models.get(request.model), request.component
    inputs = inputs_of(model, component, request.workload)
    graph = reference.load(request.graph).graph
    rounding = held.rounding_of(graph)
    context.say(f"looking where the {component} of {model.name} begins to be another function")
    if request.export is not None:
        export = reference.load(request.export).graph
        values = reference.pool_of_graphs(export, None, inputs, rounding=rounding, dtype="float32", device="cpu")
    else:
        export = None
        module = model.module(component, weights=request.weights).eval()
        names = [spec.name for spec in model.outputs(component, request.workload)]
        values = reference.pool_of_module(module, list(inputs.values()), names, rounding=rounding)
    comparison = GraphComparison(graph, values, inputs, constants=held.rounded_constants(graph, export))
    suspect = search.wrong_in_graph(comparison)
    return FirstFound(None if suspect is None else search.located(suspect, component))


def _why_not(error: Exception) -> str:
    """Say why nobody can tell the outputs; raise what is no answer."""
    from pytest_sdperf.tracing.exact import NotDefinedError

    if isinstance(error, NotDefinedError):
        return str(error)
    if is_out_of_memory(error):
        return "memory ran out"
    raise error


def _differences(request: ComputeExactly, graph: Any) -> Iterator[str]:
    """Yield what tells the same graph at another size from this one."""
    if request.full is None or request.full_workload is None:
        return
    import onnx_ir as ir

    from pytest_sdperf.fusing.same_graph import differences

    large, small = ((work.batch_size, work.height, work.width) for work in (request.full_workload, request.workload))
    ratios = [(Fraction(1), Fraction(one, other)) for one, other in zip(large, small, strict=True)]
    scales = {batch * height * width for batch, height, width in product(*ratios)}
    yield from differences(ir.load(request.full).graph, graph, scales)


def inputs_of(model: Model, component: str, workload: Workload) -> dict[str, np.ndarray[Any, Any]]:
    """Return inputs in call order: of a batch one image with large numbers and one with small ones; early timesteps."""
    import numpy as np

    drawn = model.example(component, workload)
    inputs = {}
    for spec in model.inputs(component, workload):
        array = drawn[spec.name]
        if spec.dtype == "float" and array.dtype.kind == "f":
            factors = np.linspace(LARGE, SMALL, len(array)) if len(array) > 1 else np.ones(1)
            array = array.astype(np.float64) * factors.reshape(-1, *[1] * (array.ndim - 1))
        if array.dtype.kind == "f" and (largest := float(np.abs(array).max())) > MOST:
            array = (array * (INSTEAD / largest)).astype(array.dtype)
        inputs[spec.name] = array
    return inputs
