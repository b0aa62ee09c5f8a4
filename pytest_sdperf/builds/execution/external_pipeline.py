"""The user's own pipeline as a case: what it is, and how its workers are started."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_sdperf.builds.execution.run_context import RunContext
from pytest_sdperf.builds.execution.runner import PROMPT, CaseRunner
from pytest_sdperf.core.catalog import Registrar
from pytest_sdperf.core.components import PIPELINE
from pytest_sdperf.core.settings import EngineRequest, PipelineFactory
from pytest_sdperf.core.values import Build, Case, to_json

if TYPE_CHECKING:
    import numpy as np

    Arrays = Mapping[str, np.ndarray[Any, Any]]

TASKS = "pytest_sdperf.tasks.external_pipeline"


@dataclasses.dataclass(frozen=True)
class Description:
    """What a pipeline turned out to be.

    Attributes:
        identity: Hash of its weights and settings, without what its code does with them.
        dtype: Part -> dtype.
        height, width: Its own resolution.
        scheduler: Name of its scheduler, or the class of one that has no name here.
        watermark: Whether it marks its images.
        upcasts_decoder: Whether the configuration of its VAE says `force_upcast`.
        switched_on: What its code switched on that changes what it computes, and plain classes leave off.
    """

    identity: str
    dtype: Mapping[str, str]
    height: int
    width: int
    scheduler: str
    watermark: bool
    upcasts_decoder: bool = False
    switched_on: Sequence[str] = ()

    def completed(self, case: Case) -> Case:
        """Return a case with what only the pipeline itself could say."""
        return dataclasses.replace(
            case,
            weights=f"pipeline-{self.identity}",
            height=case.height or self.height,
            width=case.width or self.width,
            scheduler=self.scheduler,
        )


@dataclasses.dataclass(frozen=True)
class ExternalPipeline:
    """What `--pipeline` named.

    Attributes:
        factory: Makes the pipeline.
        context: What the session shares.
    """

    factory: PipelineFactory
    context: RunContext

    @functools.cached_property
    def description(self) -> Description:
        """What the pipeline is; it is made once for it, in a process of its own.

        Raises:
            PipelineError: It cannot be made, or is not supported.
            SdperfError: The process failed.
        """
        self.context.say(f"making the pipeline of {self.factory.module}:{self.factory.function}")
        blank = Description("", {}, 0, 0, "", watermark=False)
        case = Case(model=self.factory.label, component=PIPELINE, engine="", optimization="")
        return Description(**self._runner(case, EngineRequest("", ""), blank).task("describe", self._arguments))

    @property
    def _arguments(self) -> dict[str, Any]:
        return {
            "factory": to_json(self.factory),
            "device_kind": self.context.device.kind,
            "device_index": 0,  # the worker sees one device only
            "prompt": PROMPT,
            "seed": 0,
        }

    def completed(self, case: Case) -> Case:
        """Return a case of this pipeline with its identity, resolution and scheduler."""
        return self.description.completed(case)

    def runner(self, case: Case, request: EngineRequest) -> ExternalPipelineRunner:
        """Return the runner of a case that is complete."""
        return self._runner(case, request, self.description)

    def _runner(self, case: Case, request: EngineRequest, description: Description) -> ExternalPipelineRunner:
        return ExternalPipelineRunner(case, request, self.context, shared=self._arguments, description=description)


@dataclasses.dataclass(frozen=True)
class ExternalPipelineRunner(CaseRunner):
    """Executes the user's own pipeline.

    Attributes:
        shared: Arguments of every task about it.
        description: What it is.
    """

    shared: Mapping[str, Any] = dataclasses.field(kw_only=True)
    description: Description = dataclasses.field(kw_only=True)

    @property
    def dtype(self) -> str:
        """The dtype of the UNet: the one in which the pipeline is compared."""
        return self.description.dtype["unet"]

    def builds(self) -> dict[str, Build]:
        """Return nothing: no part of the pipeline is built."""
        return {}

    def fed(self) -> dict[str, Any]:
        """Return what it is given; its identity, which is part of the case, tells the rest."""
        asked = {name: self.shared[name] for name in ("prompt", "seed")}
        return {**asked, "watermark": self.description.watermark}

    def arguments(
        self,
        inputs: Mapping[str, np.ndarray[Any, Any]] | None = None,
        *,
        builds: Mapping[str, Build] | None = None,
    ) -> dict[str, Any]:
        """Return the arguments of the worker's task."""
        return {**self.making, "workload": to_json(self.case.workload)}

    @property
    def making(self) -> dict[str, Any]:
        """Arguments of every task that makes the pipeline once more: it has to be the one that was described."""
        return {**self.shared, "described": {"identity": self.description.identity, "prompt": self.shared["prompt"]}}

    def registrars(self) -> tuple[Registrar, ...]:
        """Return nobody: the worker imports the user's module and registers nothing."""
        return ()

    def _task(self, function: str, module: str = "") -> str:
        return f"{f'pytest_sdperf.tasks.{module}' if module else TASKS}:{function}"

    def _start(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return {**super()._start(arguments), "preload": (f"{TASKS}:preload", {})}
