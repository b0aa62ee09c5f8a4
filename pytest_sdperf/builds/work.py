"""How much one call of a component has to compute and to move: counted once and kept in the cache."""

from __future__ import annotations

import dataclasses

from pytest_sdperf.builds import steps
from pytest_sdperf.builds.exporter import Make
from pytest_sdperf.builds.fingerprint import library_versions, source_hash
from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.files.strict_json import convert
from pytest_sdperf.core.values import Workload, to_json
from pytest_sdperf.core.values.floor import Work
from pytest_sdperf.tasks import work

_LIBRARIES = ("torch", "diffusers", "transformers")


@dataclasses.dataclass(frozen=True)
class WorkCounter:
    """Counts the work of components on torch's meta device.

    Attributes:
        catalog: What is registered.
        make: Makes an entry of the cache: step, parts of its key, task, its request, registrars.
    """

    catalog: Catalog
    make: Make

    def of(self, model_name: str, component: str, workload: Workload) -> Work:
        """Return the work of one call at the shapes of a workload.

        Raises:
            WorkerError: The process that counts failed, as where the suite's own interpreter lacks torch.
            CacheError: The cache folder cannot be written.
        """
        model = self.catalog.models.get(model_name)
        parts = {
            **steps.identity(model, component),
            "tensors": [to_json(model.inputs(component, workload)), to_json(model.outputs(component, workload))],
            "code": source_hash(work.__name__),
            "versions": library_versions(*_LIBRARIES),
        }
        request = work.CountWork(model.name, component, steps.shapes_only(workload))
        owners = [self.catalog.models.owner(model.name)]
        return convert(self.make("work", parts, f"{work.__name__}:run", request, owners).metadata, Work)
