"""One case, ready to be executed in worker processes: what the fixture `sdperf_runner` hands to a test."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from pytest_sdperf.builds.execution.run_context import RunContext
from pytest_sdperf.builds.processes import forking, process
from pytest_sdperf.builds.processes.events import Event
from pytest_sdperf.core.catalog import Registrar
from pytest_sdperf.core.components import PIPELINE, parts_of
from pytest_sdperf.core.contracts import Engine, Model
from pytest_sdperf.core.errors import SdperfError
from pytest_sdperf.core.files.arrays import Array, Arrays, digest_of, load_arrays, save_arrays
from pytest_sdperf.core.files.strict_json import convert
from pytest_sdperf.core.labels import in_words
from pytest_sdperf.core.machine.device_choice import worker_environment
from pytest_sdperf.core.settings import EngineRequest
from pytest_sdperf.core.values import Build, Case, to_json
from pytest_sdperf.tasks._execution import AboutCase, Execution, Part, Picture, Ran, RunCase

Run = Callable[..., dict[str, Any]]  # takes on_event=, and arguments= instead of those that it was started with
T = TypeVar("T")

PROMPT = "a photograph of an astronaut riding a horse on mars"


@dataclasses.dataclass(frozen=True)
class CaseRunner:
    """Executes one case.

    Attributes:
        case: What is executed.
        request: The engine that was asked for, with its interpreter and environment.
        context: What the session shares.
        altered: Name of what alters it (`core.alteration`); empty for nothing.
    """

    case: Case
    request: EngineRequest
    context: RunContext
    altered: str = ""
    _once: list[Path | SdperfError] = dataclasses.field(default_factory=list, init=False, compare=False)

    @property
    def engine(self) -> Engine:
        """The engine of the case."""
        return self.context.catalog.engines.get(self.request.engine)

    @property
    def model(self) -> Model:
        """The model of the case."""
        return self.context.catalog.models.get(self.case.model)

    @property
    def is_pipeline(self) -> bool:
        """Whether the case is a whole text-to-image request."""
        return self.case.component == PIPELINE

    @property
    def components(self) -> tuple[str, ...]:
        """The components that the case executes."""
        return parts_of(self.model, self.case.component)

    def build(self, component: str) -> Build:
        """Return the build of one component, from the cache if it is there."""
        return self.context.builder.build(self.case, component, engine=self.engine, altered=self.altered)

    @property
    def dtype(self) -> str:
        """The dtype of the case, in which it is compared; that of a whole request is the dtype of its latents."""
        return self.dtype_of(self.case.component)

    def dtype_of(self, component: str) -> str:
        """Return the dtype of one component: it may be wider than that of others."""
        return self.context.builder.exporter(self.case).dtype(self.case, component)

    def builds(self) -> dict[str, Build]:
        """Return the build of every component that the case executes."""
        return {component: self.build(component) for component in self.components}

    def as_reference(self, case: Case, request: EngineRequest) -> Self:
        """Return what executes another case, which this one is compared with: altered only by what they share."""
        shared = bool(self.altered) and self.context.catalog.alteration(self.altered).shared
        return dataclasses.replace(self, case=case, request=request, altered=self.altered if shared else "")

    def inputs(self, *, seed: int = 0) -> dict[str, Array]:
        """Return the seeded inputs of a component: float32 and int64 arrays by name."""
        return dict(self.model.example(self.case.component, self.case.workload, seed=seed))

    def fed(self) -> dict[str, Any]:
        """Return what decides the outputs beside the builds, as JSON data: it identifies what a request is given."""
        if not self.is_pipeline:
            return {"inputs": digest_of(self.inputs())}
        picture, model = self._picture(), self.model
        return {
            "tokenizers": picture.tokenizers.name,  # its key in the cache
            "prompt": picture.prompt,
            "seed": picture.seed,
            "scheduler": model.config("scheduler"),
            "guidance_scale": model.guidance_scale,
        }

    def _picture(self) -> Picture:
        return Picture(PROMPT, tokenizers=self.context.builder.tokenizers(self.case.model))

    def run(self, inputs: Arrays | None = None) -> dict[str, Array]:
        """Execute the case once in a fresh process and return its outputs.

        Args:
            inputs: Arrays by input name; the seeded inputs if None. A pipeline takes none: its prompt and latents are
                seeded.

        Returns:
            Arrays by output name; for a pipeline `image` (N, 3, H, W), `latents` (N, 4, H/8, W/8), `step_latents`,
            those after each UNet call (UNet calls, N, 4, H/8, W/8), `unet_calls`, and `range.COMPONENT`: of each call
            the largest magnitude that it put out, the values that are not finite, and all (calls, 3).

        Raises:
            SdperfError: The engine refused, crashed, hung or ran out of memory.
        """
        return load_arrays(Path(self.task("run", RunCase(self.execution(inputs)), Ran).outputs))

    def outputs(self) -> dict[str, Array]:
        """Return what `run()` gave once in this session: comparisons share one execution. Raises as that one did."""
        self.run_ahead()
        if isinstance(self._once[0], SdperfError):
            raise self._once[0]
        return load_arrays(self._once[0])

    def run_ahead(self) -> None:
        """Execute the case for `outputs()`, if nobody has yet."""
        if self._once:
            return
        try:
            self._once.append(Path(self.task("run", RunCase(self.execution()), Ran).outputs))
        except SdperfError as error:
            self._once.append(error)

    @property
    def has_outputs(self) -> bool:
        """Whether the case was executed for `outputs()`, which then takes no time."""
        return bool(self._once)

    def execution(
        self,
        inputs: Arrays | None = None,
        *,
        builds: Mapping[str, Build] | None = None,
    ) -> Execution:
        """Return what a worker is told of the case, with other builds than its own if they are given."""
        told = self._loaded(builds or self.builds())
        if self.engine.compiles:
            find, start = self.context.compilations.find, self._start(told)
            compiled = {name: find(self.engine, told, name, request=self.request, start=start) for name in told.parts}
            parts = {name: dataclasses.replace(part, compiled=compiled[name]) for name, part in told.parts.items()}
            told = dataclasses.replace(told, parts=parts)
        if self.is_pipeline:
            return dataclasses.replace(told, picture=self._picture()).drawn_in(self.dtype)
        file = self.context.new_folder("inputs") / "inputs.npz"
        return dataclasses.replace(told, inputs=save_arrays(file, self.inputs() if inputs is None else inputs))

    def compilation_keys(self) -> tuple[str, ...]:
        """Return how the cache's keys begin of what the engine compiles for the case; empty if it compiles nothing."""
        if not self.engine.compiles:
            return ()
        told, start = self._loaded(self.builds()), self.context.compilations.key_start
        return tuple(start(self.engine, told, name, request=self.request) for name in told.parts)

    def _loaded(self, builds: Mapping[str, Build]) -> Execution:
        """Return what is loaded of the case; what was compiled is not there yet."""
        options = dict(self.request.options)
        return Execution(
            model=self.case.model,
            component=self.case.component,
            parts={name: Part(self.request.engine, options, build, self.case.shapes) for name, build in builds.items()},
            workload=self.case.workload,
            device_kind=self.context.device.kind,
            altered=self.altered,
        )

    def task(self, function: str, request: AboutCase, answer: type[T], *, module: str = "") -> T:
        """Run a function of `tasks.pipeline` or `tasks.component`, or of another module, in a fresh process."""
        return convert(self._answer(function, request, module=module), answer)

    def _answer(
        self,
        function: str,
        arguments: AboutCase,
        *,
        module: str,
        on_event: Callable[[Event], None] | None = None,
    ) -> dict[str, Any]:
        settings = self.context.settings
        uses_torch = self.is_pipeline or self.engine.consumes == "module"
        with self.context.turns.alone_on_gpu(in_words(self.case)):
            return process.run_task(
                self._task(function, module),
                arguments,
                timeout_s=settings.worker_timeout_s,
                in_process=settings.in_process,
                on_event=on_event,
                libraries=forking.MODULES if uses_torch else forking.GRAPHS,
                what=f"running {in_words(self.case)}",
                **self._start(arguments.case),
            )

    @contextlib.contextmanager
    def workers(self, function: str, request: AboutCase, *, count: int, module: str = "") -> Iterator[Sequence[Run]]:
        """Start fresh processes that run a function, each when it is called and not before.

        They import side by side what the case needs, and then wait: importing takes longer than most calls, and it
        must be over when the first of them measures.

        Args:
            function: Of `tasks.pipeline` or `tasks.component`, or of another module.
            request: What it is asked for.
            module: That module; empty for these.
            count: How many processes.

        Raises:
            WorkerError: One cannot be started, or takes too long to import.
        """
        settings = self.context.settings
        if settings.in_process:
            yield [functools.partial(self._answer, function, arguments=request, module=module)] * count
            return
        with contextlib.ExitStack() as stack:
            waiting = [stack.enter_context(process.started(**self._start(request.case))) for _ in range(count)]
            for one in waiting:
                one.until_ready(settings.worker_timeout_s)
            how: dict[str, Any] = {"arguments": request, "timeout_s": settings.worker_timeout_s}
            yield [functools.partial(one.run, self._task(function, module), **how) for one in waiting]

    def _task(self, function: str, module: str = "") -> str:
        return f"pytest_sdperf.tasks.{module or ('pipeline' if self.is_pipeline else 'component')}:{function}"

    def _start(self, told: Execution) -> dict[str, Any]:
        """Return how a process of this case is started."""
        return {
            "out_dir": self.context.new_folder(self.case.component),
            "registrars": self.registrars(),
            "python": self.request.python,
            # The device comes last: nothing may move the measurement to another one.
            "env": {**self.request.env, **worker_environment(self.context.device)},
            "preload": ("pytest_sdperf.tasks.preload:run", to_json(told)),
        }

    def registrars(self) -> tuple[Registrar, ...]:
        """Return who registered what a case is made of: a worker needs these modules and no others."""
        catalog = self.context.catalog
        owners = [catalog.engines.owner(self.request.engine), catalog.models.owner(self.case.model)]
        owners += [catalog.alterations.owner(self.altered)] if self.altered else []
        return tuple(dict.fromkeys(owners))
