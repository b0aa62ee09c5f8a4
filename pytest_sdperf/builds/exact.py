"""Outputs of a component in float64 (`tracing.exact`), kept in the cache: of its module, its export and its builds."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pytest_sdperf.builds import steps
from pytest_sdperf.builds.exporter import Make
from pytest_sdperf.builds.fingerprint import library_versions, source_hash
from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.files.arrays import load_arrays
from pytest_sdperf.core.files.strict_json import convert
from pytest_sdperf.core.values import Build, Case, to_json
from pytest_sdperf.tasks import exact

if TYPE_CHECKING:
    import numpy as np

_LIBRARIES = (*steps.MODULE_LIBRARIES, "onnx_ir", "numpy")


@dataclasses.dataclass(frozen=True)
class Exact:
    """What one side computes.

    Attributes:
        outputs: By name; empty where nobody can tell them.
        unknown: Why: a node without a definition.
    """

    outputs: Mapping[str, np.ndarray[Any, Any]]
    unknown: str = ""


@dataclasses.dataclass(frozen=True)
class ExactValues:
    """Has modules and graphs computed in float64.

    Attributes:
        catalog: What is registered.
        make: Makes an entry of the cache: step, parts of its key, task, its request, registrars.
    """

    catalog: Catalog
    make: Make

    def of(
        self, case: Case, component: str, computed: Build, *, build: Build | None = None, export: Build | None = None
    ) -> Exact:
        """Return the outputs of a module or graph for inputs that depend on the case alone.

        A static graph is computed at its own size, the only one that it takes; others where no extents are equal.

        Args:
            case: Its shapes are those of the inputs.
            component: One of its components.
            computed: The module or the graph.
            build: Whose numbers count, in their precision; None for each number as it is.
            export: What that was made of, whose constants count; None where nobody has it.

        Raises:
            WorkerError: The process that computes failed, for lack of memory too.
        """
        model = self.catalog.models.get(case.model)
        workload = steps.shapes_only(case.workload) if case.shapes != "dynamic" else steps.open_shapes(model)
        parts = {
            **steps.identity(model, component),
            "tensors": [to_json(model.inputs(component, workload)), to_json(model.outputs(component, workload))],
            **{name: one and one.key for name, one in (("of", computed), ("build", build), ("export", export))},
            "code": source_hash(exact.__name__),
            "versions": library_versions(*_LIBRARIES),
        }
        request = exact.ComputeExactly(
            model.name,
            component,
            workload,
            **{"weights" if computed.kind == "module" else "graph": computed.path},
            build=build.path if build else None,
            export=export.path if export else None,
        )
        owners = [self.catalog.models.owner(model.name)]
        entry = self.make("exact", parts, f"{exact.__name__}:run", request, owners)
        unknown = convert(entry.metadata, exact.ExactOutputs).unknown
        return Exact({} if unknown else load_arrays(entry.path / exact.FILE), unknown)
