"""Compute a component in float64 (`tracing.exact`): its module, its export, or a build of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_sdperf.core.contracts import Model
from pytest_sdperf.core.files.arrays import save_arrays
from pytest_sdperf.core.values import Workload
from pytest_sdperf.tasks import TaskContext

if TYPE_CHECKING:
    import numpy as np

FILE = "outputs.npz"
LARGE, SMALL = 3.0, 0.3  # factors of the first and the last image of a batch
# An angle is a timestep times a frequency in float32: what its last bit moves grows with the timestep.
MOST, INSTEAD = 100.0, 10.0


@dataclass(frozen=True)
class ComputeExactly:
    """One component.

    Attributes:
        model: Catalog name.
        component: One of its components.
        workload: Its inputs have these shapes.
        weights: File (safetensors) of a module; None computes a graph.
        graph: File (ONNX) of a graph; None computes a module.
        build: The file whose parameters count: the build that the graph is, or that is compared with this; None where
            each number counts as it is.
        export: What the build was made of; None where nobody has it.
    """

    model: str
    component: str
    workload: Workload
    weights: Path | None = None
    graph: Path | None = None
    build: Path | None = None
    export: Path | None = None


@dataclass(frozen=True)
class ExactOutputs:
    """What came of it.

    Attributes:
        unknown: Node that has no definition, and why; then there are no outputs.
    """

    unknown: str = ""


def run(request: ComputeExactly, context: TaskContext) -> ExactOutputs:
    """Write the outputs as `outputs.npz`, by name, in float64."""
    import onnx_ir as ir

    from pytest_sdperf.tracing import exact

    model = context.catalog.models.get(request.model)
    what = "module" if request.graph is None else "graph"
    context.say(f"computing the {what} of {request.model} {request.component} in float64")
    build = ir.load(request.build).graph if request.build else None
    held = exact.held_by(build, ir.load(request.export).graph if request.export else None) if build else exact.Held()
    inputs = inputs_of(model, request.component, request.workload)
    if request.graph is None:
        module = model.module(request.component, weights=request.weights, dtype="float64").eval()
        found = exact.of_module(module, list(inputs.values()), held)
        specs = model.outputs(request.component, request.workload)
        outputs = {spec.name: array for spec, array in zip(specs, found, strict=True)}
    else:
        try:
            outputs = exact.of_graph(ir.load(request.graph).graph, inputs, held)
        except exact.NotDefinedError as error:
            return ExactOutputs(str(error))
    save_arrays(context.out_dir / FILE, outputs)
    return ExactOutputs()


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
