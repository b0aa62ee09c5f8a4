"""Outputs of a component in float64 (`tracing.exact`), kept in the cache: of its module, its export and its builds."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pytest_sdperf.builds import steps
from pytest_sdperf.builds.exporter import Make
from pytest_sdperf.builds.fingerprint import library_versions, source_hash
from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.files.arrays import load_arrays
from pytest_sdperf.core.files.strict_json import convert
from pytest_sdperf.core.machine.device_choice import worker_environment
from pytest_sdperf.core.values import Build, Case, Workload, to_json
from pytest_sdperf.core.values.located import Located
from pytest_sdperf.tasks import exact, joints
from pytest_sdperf.tracing.held import Held

if TYPE_CHECKING:
    import numpy as np

    from pytest_sdperf.builds.execution.run_context import RunContext

_LIBRARIES = (*steps.MODULE_LIBRARIES, "onnx_ir", "numpy")
_LARGEST = 256 * 256
"""Pixels at which a static graph is computed itself: the UNet of sd15 takes 30 s at 512x512, on 16 cores."""


@dataclasses.dataclass(frozen=True)
class Exact:
    """What one side computes.

    Attributes:
        outputs: By name; empty where nobody can tell them.
        unknown: Why: a node without a definition, or lack of memory.
        held: Of a graph, how it holds parameters.
        differences: What tells the same graph at another size from it; the first ones.
    """

    outputs: Mapping[str, np.ndarray[Any, Any]]
    unknown: str = ""
    held: Held = dataclasses.field(default_factory=Held)
    differences: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class ExactValues:
    """Has modules and graphs computed in float64.

    Attributes:
        catalog: What is registered.
        make: Makes an entry of the cache: step, parts of its key, task, its request, registrars.
    """

    catalog: Catalog
    make: Make

    def stand_in(self, case: Case, component: str) -> Case:
        """Return the case whose graph is computed for that of a case: the same at a small size, where its own is large.

        A static graph takes its own size alone: where that can be afforded it is computed, and nothing can hide there
        that its users meet. A dynamic one, and what stands for a large static one, has two images and no extents that
        are equal.
        """
        model = self.catalog.models.get(case.model)
        if case.shapes == "dynamic":
            return case
        small = dataclasses.replace(steps.SMALL, batch_size=case.batch_size)
        one_size = model.inputs(component, small) == model.inputs(component, steps.shapes_only(case.workload))
        if one_size or case.height * case.width <= _LARGEST:
            return case
        return dataclasses.replace(case, batch_size=steps.SMALL.batch_size, height=small.height, width=small.width)

    def of(
        self,
        case: Case,
        component: str,
        computed: Build,
        *,
        held: Held | None = None,
        export: Build | None = None,
        build: Build | None = None,
        full: tuple[Case, Build] | None = None,
        gpu: RunContext | None = None,
    ) -> Exact:
        """Return the outputs of a module or graph for inputs that depend on the case alone.

        Args:
            case: Its shapes are those of the inputs.
            component: One of its components.
            computed: The module or the graph.
            held: How parameters are held; None for each as it is.
            export: What a graph was made of, whose constants count; None where nobody has it.
            build: Whose parameters `held` tells.
            full: The same graph at another size, which is compared with it, and its case.
            gpu: Where it is computed if nobody measures there; None for the CPU.

        Raises:
            WorkerError: The process that computes failed.
        """
        model = self.catalog.models.get(case.model)
        quantized = build if held and held.quantized else None
        builds = {"of": computed, "export": export, "quantized": quantized, "full": full and full[1]}
        parts = {**self._parts(case, component, exact.__name__, builds), "held": to_json(held)}
        request = exact.ComputeExactly(
            model.name,
            component,
            _workload(case),
            weights=computed.path if computed.kind == "module" else None,
            graph=computed.path if computed.kind == "onnx" else None,
            held=held,
            quantized=quantized.path if quantized else None,
            export=export.path if export else None,
            full=full and full[1].path,
            full_workload=full and steps.shapes_only(full[0].workload),
        )
        owners = [self.catalog.models.owner(model.name)]
        with _device(gpu, f"{component} of {case.model} in float64") as (device, env):
            request = dataclasses.replace(request, device=device)
            entry = self.make("exact", parts, f"{exact.__name__}:run", request, owners, env=env)
        found = convert(entry.metadata, exact.ExactOutputs)
        outputs = {} if found.unknown else load_arrays(entry.path / exact.FILE)
        return Exact(outputs, found.unknown, found.held, found.differences)

    def first_difference(self, case: Case, component: str, graph: Build, made_of: Build) -> Located | None:
        """Return where a graph begins to be another function than the module or export that it was made of.

        Args:
            case: Its shapes are those of the inputs.
            component: One of its components.
            graph: The graph.
            made_of: The other side.

        Raises:
            WorkerError: The process that computes failed.
        """
        parts = self._parts(case, component, exact.__name__, {"graph": graph, "made of": made_of})
        export, weights = (made_of.path if made_of.kind == kind else None for kind in ("onnx", "module"))
        request = exact.FindFirst(case.model, component, _workload(case), graph.path, export, weights)
        owners = [self.catalog.models.owner(case.model)]
        entry = self.make("exact", parts, f"{exact.__name__}:find", request, owners)
        return convert(entry.metadata, exact.FirstFound).located

    def places(self, case: Case, component: str, *, module: Build, build: Build) -> Mapping[str, joints.Place]:
        """Return where a graph holds what the blocks of its module read and give.

        Args:
            case: Its shapes are those of the inputs.
            component: One of its components.
            module: The module.
            build: The graph.

        Raises:
            WorkerError: The process that computes failed, for lack of memory too.
        """
        parts = self._parts(case, component, joints.__name__, {"of": module, "build": build})
        request = joints.FindPlaces(case.model, component, _workload(case), module.path, build.path)
        owners = [self.catalog.models.owner(case.model)]
        entry = self.make("joints", parts, f"{joints.__name__}:find", request, owners)
        return convert(entry.metadata, joints.PlacesFound).places

    def _parts(self, case: Case, component: str, task: str, builds: Mapping[str, Build | None]) -> dict[str, Any]:
        """Return the parts of a key: the model, the shapes, what is looked at, and what does it."""
        model, workload = self.catalog.models.get(case.model), _workload(case)
        return {
            **steps.identity(model, component),
            "tensors": [to_json(model.inputs(component, workload)), to_json(model.outputs(component, workload))],
            **{name: one and one.key for name, one in builds.items()},
            "code": source_hash(task),
            "versions": library_versions(*_LIBRARIES),
        }


def _workload(case: Case) -> Workload:
    """Return the shapes at which a graph is computed: its own, or for a dynamic one small ones that are not alike."""
    return steps.shapes_only(case.workload) if case.shapes != "dynamic" else steps.SMALL


@contextlib.contextmanager
def _device(gpu: RunContext | None, what: str) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Give torch's name of the device to compute on, and the variables by which a process sees it.

    A GPU on which somebody measures is not waited for: the CPU is there for everybody.
    """
    with gpu.turns.alone_if_free(what) if gpu else contextlib.nullcontext(False) as free:  # noqa: FBT003
        yield ("cuda", worker_environment(gpu.device)) if gpu and free else ("cpu", {})
