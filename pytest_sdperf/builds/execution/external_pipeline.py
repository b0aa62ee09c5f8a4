"""The user's own pipeline as a case: what it is, and how its workers are started."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from pytest_sdperf.builds.execution.run_context import RunContext
from pytest_sdperf.builds.execution.runner import PROMPT, CaseRunner
from pytest_sdperf.core import progress
from pytest_sdperf.core.catalog import Registrar
from pytest_sdperf.core.components import PIPELINE
from pytest_sdperf.core.files.arrays import Arrays
from pytest_sdperf.core.settings import EngineRequest, PipelineFactory
from pytest_sdperf.core.values import Build, Case
from pytest_sdperf.tasks._execution import Execution, OwnPipeline, Picture
from pytest_sdperf.tasks.external_pipeline import Description

TASKS = "pytest_sdperf.tasks.external_pipeline"


@dataclasses.dataclass(frozen=True)
class ExternalPipelineRunner(CaseRunner):
    """Executes the user's own pipeline.

    Attributes:
        factory: Makes it.
        description: What it is; each process that makes it once more has to make this one.
    """

    factory: PipelineFactory = dataclasses.field(kw_only=True)
    description: Description = dataclasses.field(kw_only=True)

    @property
    def dtype(self) -> str:
        """The dtype of the UNet: the one in which the pipeline is compared."""
        return self.description.dtype["unet"]

    def fed(self) -> dict[str, Any]:
        """Return what it is given; its identity, which is part of the case, tells the rest."""
        picture = self._picture()
        return {"prompt": picture.prompt, "seed": picture.seed, "watermark": self.description.watermark}

    def _picture(self) -> Picture:
        return Picture(PROMPT)

    def execution(
        self,
        inputs: Arrays | None = None,
        *,
        builds: Mapping[str, Build] | None = None,
    ) -> Execution:
        """Return what a worker is told of the case."""
        own = OwnPipeline(self.factory, self.description.identity)
        return dataclasses.replace(self._loaded({}), picture=self._picture(), own=own)

    def registrars(self) -> tuple[Registrar, ...]:
        """Return nobody: the worker imports the user's module and registers nothing."""
        return ()

    def _task(self, function: str, module: str = "") -> str:
        return f"{f'pytest_sdperf.tasks.{module}' if module else TASKS}:{function}"

    def _start(self, told: Execution) -> dict[str, Any]:
        return {**super()._start(told), "preload": (f"{TASKS}:preload", {})}


def described(factory: PipelineFactory, context: RunContext) -> ExternalPipelineRunner:
    """Return what runs a pipeline, with no case yet; it is made once to be described, in a process of its own.

    Raises:
        PipelineError: It cannot be made, or is not supported.
        SdperfError: The process failed.
    """
    blank = Description("", {}, 0, 0, "", watermark=False)
    case = Case(model=factory.label, component=PIPELINE, engine="", optimization="")
    runner = ExternalPipelineRunner(case, EngineRequest("", ""), context, factory=factory, description=blank)
    with progress.step(f"making the pipeline of {factory.module}:{factory.function}"):
        return dataclasses.replace(runner, description=runner.task("describe", runner.execution(), Description))
