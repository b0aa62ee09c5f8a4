"""The engine of a pipeline that the user's own code makes: the pipeline itself."""

from __future__ import annotations

from contextlib import AbstractContextManager

from pytest_sdperf.core.contracts import LoadRequest, Runner
from pytest_sdperf.core.errors import BuildError
from pytest_sdperf.engines import _torch


class ExternalPipelineEngine(_torch.ModuleEngine):
    """Says what a worker needs to call a diffusers pipeline, and where one may run."""

    name = "diffusers"
    resizes = True

    def default_optimizations(self, device_kind: str) -> tuple[str, ...]:
        """Return `as-is` alone: nothing is done to the pipeline."""
        return ("as-is",)

    def load(self, request: LoadRequest) -> AbstractContextManager[Runner]:
        """Refuse: the pipeline is called as a whole.

        Raises:
            BuildError: Always.
        """
        raise BuildError(f"{self.name} runs the pipeline of --sdperf-pipeline as a whole, and no {request.component}")
