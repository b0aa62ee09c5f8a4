"""What tasks that execute a case are asked for: what is loaded, what that is given, and what is done with it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pytest_sdperf.core.device import DeviceKind
from pytest_sdperf.core.settings import PipelineFactory
from pytest_sdperf.core.values import Build, Sample, Workload
from pytest_sdperf.core.values.artifact import BuildStep
from pytest_sdperf.core.values.recipe import ModuleRecipe, SessionRecipe
from pytest_sdperf.tasks.sampling.timing import TimingPlan


@dataclass(frozen=True)
class Compiled:
    """What an engine compiled of one component.

    Attributes:
        folder: Where its files are; a process that loads the component has links to them.
        size_bytes: Their size.
        step: What making them took.
    """

    folder: Path
    size_bytes: int
    step: BuildStep


@dataclass(frozen=True)
class Part:
    """One component, as it is loaded.

    Attributes:
        engine: Catalog name of the engine.
        options: Options that differ from the engine's defaults.
        build: What the engine loads.
        shapes: `static` or `dynamic`; empty where the build is no graph.
        compiled: What the engine compiled of the build before; None where it compiles nothing ahead.
    """

    engine: str
    options: Mapping[str, str]
    build: Build
    shapes: str = ""
    compiled: Compiled | None = None


@dataclass(frozen=True)
class Picture:
    """What a whole request draws.

    Attributes:
        prompt: The same for every image.
        seed: Of the initial latents.
        tokenizers: Folder with those of the model.
        dtype: Of the latents.
        rounding: Number of a rounding of the initial latents (`values.roundings`); 0 takes them as they are.
    """

    prompt: str = ""
    seed: int = 0
    tokenizers: Path = Path()
    dtype: str = ""
    rounding: int = 0


@dataclass(frozen=True)
class OwnPipeline:
    """A pipeline that the user's own code makes.

    Attributes:
        factory: Makes it.
        identity: What `identity` of its plain twin was when it was described; empty until then.
    """

    factory: PipelineFactory
    identity: str = ""


@dataclass(frozen=True)
class Execution:
    """A case, as worker processes execute it.

    Attributes:
        model: Catalog name, or the label of the factory of the user's own pipeline.
        component: Of the case: `pipeline` for a whole request.
        parts: Component -> what is loaded of it; empty for the user's own pipeline.
        workload: Size of the work.
        device_kind: `cpu`, `cuda` or `rocm`.
        device_index: Of the device among those that the process sees, which is one.
        inputs: File (npz) with the inputs of a component; a whole request has none.
        picture: What a whole request draws.
        own: The user's own pipeline; None for a model.
        altered: Name of what alters what is loaded, or the answer (`core.alteration`); mostly empty.
    """

    model: str
    component: str
    parts: Mapping[str, Part]
    workload: Workload
    device_kind: DeviceKind
    device_index: int = 0
    inputs: Path = Path()
    picture: Picture = Picture()
    own: OwnPipeline | None = None
    altered: str = ""

    @property
    def case(self) -> Execution:
        """The case itself: it is the request of a task that is told no more."""
        return self

    @property
    def torch_device(self) -> str:
        """The device, as torch calls it."""
        return "cpu" if self.device_kind == "cpu" else f"cuda:{self.device_index}"

    @property
    def factory(self) -> PipelineFactory:
        """What makes the user's own pipeline."""
        assert self.own is not None
        return self.own.factory

    def drawn_in(self, dtype: str, rounding: int = 0) -> Execution:
        """Return the same with latents of another dtype, rounded in another way."""
        return dataclasses.replace(self, picture=dataclasses.replace(self.picture, dtype=dtype, rounding=rounding))


class AboutCase(Protocol):
    """A request of a task that executes a case."""

    @property
    def case(self) -> Execution:
        """The case."""


@dataclass(frozen=True)
class RunCase:
    """Execute a case once.

    Attributes:
        case: The case.
        inside: Whether what a component computes inside is written too (`Runner.inside`).
        blocks: Whether that is asked of blocks alone.
        keep: Component of a whole request -> number of the call whose inputs are kept, from 1.
    """

    case: Execution
    inside: bool = False
    blocks: bool = False
    keep: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Ran:
    """What executing a case gave.

    Attributes:
        outputs: File (npz) with an array per output.
        inside: File (npz) with what was computed inside; empty where it was not asked for, or nothing can be seen.
        session: How the engine makes its session; None where it was not asked for, or is no session.
        module: How it calls its module, likewise.
        kept: Component -> file (npz) with the inputs of a call.
    """

    outputs: str
    inside: str = ""
    session: SessionRecipe | None = None
    module: ModuleRecipe | None = None
    kept: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class MeasureCase:
    """Measure a case in a fresh process.

    Attributes:
        case: The case.
        plan: How many calls are timed.
        what_ran: Whether it is looked at when all calls are timed; without, only the times and versions are told.
    """

    case: Execution
    plan: TimingPlan
    what_ran: bool = True


@dataclass(frozen=True)
class Measured:
    """What a process measured.

    Attributes:
        sample: Its times, its memory and what ran.
    """

    sample: Sample


@dataclass(frozen=True)
class CallRequest:
    """One of several calls of a loaded case.

    Attributes:
        name: What the report calls it.
        workload: Its size.
        resized: Whether the size changes from call to call.
        inputs: File (npz) with the inputs of a component; a whole request has what follows.
        prompts: Of each image.
        seed: Of the initial latents.
        drawn: Images whose latents are drawn.
        rows: Which of these images are made, in this order.
    """

    name: str
    workload: Workload
    resized: bool = False
    inputs: Path = Path()
    prompts: tuple[str, ...] = ()
    seed: int = 0
    drawn: int = 0
    rows: tuple[int, ...] = ()


@dataclass(frozen=True)
class ShowingFiles:
    """Files that may show a fault by themselves.

    Attributes:
        folder: Where they are.
        weights: What is in place of the weights: `random` numbers, or the `real` ones.
    """

    folder: str
    weights: str
