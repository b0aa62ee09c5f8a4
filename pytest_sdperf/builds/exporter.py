"""Where the graph of a component comes from: a torch module that is exported, or a file that somebody exported."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

from pytest_sdperf.builds import steps
from pytest_sdperf.builds.cache import Entry
from pytest_sdperf.builds.fingerprint import library_versions, source_hash
from pytest_sdperf.builds.weights_identity import NONE
from pytest_sdperf.core import ladder
from pytest_sdperf.core.catalog import Catalog, Registrar
from pytest_sdperf.core.components import component_dtype
from pytest_sdperf.core.contracts import Model
from pytest_sdperf.core.values import Case, to_json
from pytest_sdperf.fusing.record import Site
from pytest_sdperf.tasks import export, weights


class Make(Protocol):
    """Makes an entry of the cache in a process of its own."""

    def __call__(
        self,
        step: str,
        parts: Mapping[str, Any],
        task: str,
        request: Any,
        owners: list[Registrar],
        *,
        env: Mapping[str, str] = ...,
    ) -> Entry:
        """Return the entry: step, parts of its key, task, its request, registrars, variables of its process."""


@dataclasses.dataclass(frozen=True)
class Exporter(ABC):
    """Gives the graphs of models, and tells what is known of them beforehand.

    Attributes:
        catalog: What is registered.
        make: Makes an entry of the cache: step, parts of its key, task, its request, registrars.
        kinds: The entries that it makes of a component, in their order.
    """

    catalog: Catalog
    make: Make
    kinds: ClassVar[tuple[str, ...]]

    @abstractmethod
    def export(self, case: Case, component: str) -> list[Entry]:
        """Return what leads to the graph of a component, and the graph last.

        Raises:
            BuildError: It cannot be exported, does not fit the model or the dtype, or is not valid.
        """

    def dtype(self, case: Case, component: str) -> str:
        """Return the dtype of a build of one component; of `pipeline`, that of the latents."""
        asked = ladder.dtype_of(case.optimization, self.catalog.ladder)
        return component_dtype(self.catalog.models.get(case.model), component, asked)

    def optimizations(self, case: Case) -> tuple[str, ...]:
        """Return the optimizations whose operators the builds of a case hold, lowest first."""
        return ladder.optimizations(case.optimization, self.catalog.ladder)

    def standing(self, case: Case) -> Mapping[str, Mapping[str, str]]:
        """Return component -> optimization -> how it stands, of graphs taken as they are; empty for others."""
        return {}

    def places(self, case: Case) -> Sequence[Site] | None:
        """Return where something could be fused in a graph taken as it is, and what; None for others."""
        return None


@dataclasses.dataclass(frozen=True)
class TorchExporter(Exporter):
    """Exports torch modules, with `dynamo` or `torchscript`.

    Attributes:
        weights: Returns the entry of the weights of a component; nothing where graphs have none.
    """

    weights: Callable[[Model, str], list[Entry]]
    kinds = ("weights", "export")

    def export(self, case: Case, component: str) -> list[Entry]:
        """Return the entry of the graph, which is float32, behind that of its weights where it has any."""
        model = self.catalog.models.get(case.model)
        drawn = self.weights(model, component)
        work = steps.shapes_only(case.workload) if case.shapes == "static" else steps.open_shapes(model)
        request = export.ExportModule(
            model.name,
            component,
            case.exporter,
            case.opset,
            case.shapes,
            workload=work,
            weights=drawn[0].path / weights.FILE if drawn else None,
        )
        parts = {
            **to_json(request),
            **steps.identity(model, component),
            "workload": [to_json(model.inputs(component, work)), to_json(model.outputs(component, work))],
            "weights": drawn[0].digest if drawn else NONE,
            "code": source_hash(export.__name__),
            "versions": library_versions(*steps.EXPORT_LIBRARIES),
        }
        owners = [self.catalog.models.owner(model.name)]
        return [*drawn, self.make("export", parts, f"{export.__name__}:run", request, owners)]
