"""What a plug-in promises: engines and their runners; `device`, `model` and `optimization` have the others.

Standard library only at import time: workers import this under foreign interpreters. Base classes instead of
Protocols, because each carries behaviour that authors should not write twice.
"""

from __future__ import annotations

import importlib
import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pytest_sdperf.core.device import DeviceKind
from pytest_sdperf.core.files.arrays import Arrays as Arrays  # noqa: PLC0414 - these are re-exported for plug-ins
from pytest_sdperf.core.interpreter import install_command
from pytest_sdperf.core.model import Model as Model  # noqa: PLC0414
from pytest_sdperf.core.optimization import Optimization as Optimization  # noqa: PLC0414
from pytest_sdperf.core.values import Build, Workload
from pytest_sdperf.core.values import ComponentFacts as ComponentFacts  # noqa: PLC0414
from pytest_sdperf.core.values.recipe import ModuleRecipe, SessionRecipe

if TYPE_CHECKING:
    import numpy as np
    import torch

_PRECISIONS = ("fp32", "fp16")  # optimizations that need no operator beside those of ONNX


@dataclass(frozen=True)
class EngineOption:
    """One option of an engine.

    Attributes:
        default: Value that leaves no trace in the case key.
        help: One line.
        choices: Allowed values; empty allows any text that `pattern` matches.
        pattern: Regular expression for free values.
    """

    default: str
    help: str
    choices: tuple[str, ...] = ()
    pattern: str = r".+"


@dataclass(frozen=True)
class Requirement:
    """A package that an engine needs in the interpreter of its worker.

    Attributes:
        module: Name to import.
        install: Command that installs it; empty stands for the engine's extra of this project.
        package: Name of its distribution; empty stands for the module's name.
    """

    module: str
    install: str = ""
    package: str = ""


@dataclass(frozen=True)
class LoadRequest:
    """Everything a worker knows when it loads one component.

    Attributes:
        build: What to load.
        model: The model it belongs to (for engines that load a torch module).
        component: Component name.
        workload: Shapes.
        device_kind, device_index: Where to run, as the worker sees its devices.
        options: Every option of the engine, defaults filled in.
        work_dir: Folder of this process for the engine's own files, one for all components of a pipeline. It begins
            with what compiling left (`Engine.compiles`), and is empty for an engine that compiles nothing.
        shapes: `static` or `dynamic`: whether a graph takes these shapes only; empty for a module.
    """

    build: Build
    model: Model
    component: str
    workload: Workload
    device_kind: DeviceKind
    device_index: int
    options: Mapping[str, str]
    work_dir: Path
    shapes: str = ""


class Runner(ABC):
    """One loaded component. `bind`, then `run` and `synchronize` as often as wanted, then `fetch`."""

    @abstractmethod
    def bind(self, inputs: Arrays) -> None:
        """Place inputs on the device (numpy arrays by name, cast to the dtype that the build expects)."""

    @abstractmethod
    def run(self) -> None:
        """Start one call on the bound inputs; may return before the device has finished."""

    def run_plainly(self) -> None:
        """Start one call as `run` does, but replay no captured graph; where none is captured they are one."""
        self.run()

    @abstractmethod
    def synchronize(self) -> None:
        """Return when the device has finished everything that `run` started."""

    @abstractmethod
    def fetch(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the outputs of the last call on the host, by output name, in the dtype that the build computes."""

    def resize(self, workload: Workload) -> None:
        """Get ready for inputs of another size, or for those from before; nothing is loaded anew (`Engine.resizes`).

        Args:
            workload: Batch size and resolution of every call from now on.
        """
        raise NotImplementedError("an engine that says resizes=True has a runner with resize()")

    def call(self, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Run once on torch tensors and return torch tensors on the same device (used by the pipeline).

        The default goes through host memory, which is right everywhere and fast on a CPU.
        """
        import torch

        device = next(iter(inputs.values())).device
        self.bind({name: tensor.detach().cpu().numpy() for name, tensor in inputs.items()})
        self.run()
        self.synchronize()
        return {name: torch.from_numpy(array).to(device) for name, array in self.fetch().items()}

    def enter(self, phase: str) -> None:  # noqa: B027 - most have nothing to count
        """Hear that a phase of the measurement begins (`first_run`, `second_run`, `warmup`, `timed`, `energy`)."""

    def leave(self, phase: str) -> None:  # noqa: B027 - as above
        """Hear that it has ended."""

    def allocator_peak_bytes(self, *, reset: bool) -> int | None:
        """Return the peak of the engine's own allocator since the last reset; None where it cannot tell.

        It is that of the process: whatever other components hold that were loaded with this engine is part of it.
        """
        return None

    @contextmanager
    def inside(self, *, blocks: bool = False) -> Iterator[dict[str, np.ndarray[Any, Any]]]:
        """Collect what the modules inside read and give in calls made meanwhile.

        Args:
            blocks: Whether blocks alone are asked (`core.blocks`), which takes a fraction of the memory.

        Yields:
            `PATH` -> first output of the module of that path, in the order in which they finish, and `PATH<NUMBER` ->
            what it read; `PATH#2` for its second call. Filled by a call; stays empty where nobody can look inside.
        """
        yield {}

    def recipe(self) -> SessionRecipe | ModuleRecipe | None:
        """Return how to do without this project what this runner does; None where nobody can."""
        return None

    def facts(self) -> ComponentFacts:
        """Return what really ran (providers, threads, nodes per provider, ...); what no fact is named for is `own`."""
        return {}


class Engine(ABC):
    """One way to execute a component. One file each, registered through `pytest_sdperf_register`.

    Attributes:
        name: Name on the command line.
        consumes: `onnx` (loads an ONNX file) or `module` (loads the torch module).
        device_kinds: Where it runs.
        options: Name -> option.
        aliases: Further name on the command line -> values of the options that it stands for.
        requirements: Packages it needs in its worker.
        extra: The extra of this project that brings them (`cpu`, `cuda`, `rocm`); empty stands for the one that is
            named as the device kind.
        fuses: Whether its compiler fuses for itself: then a graph comes in the precision of its optimization, with
            operators of ONNX alone, and the optimizations of fused operators do not apply.
        compiles: Whether `load` and a first call leave files in `work_dir` that spare the next process the compiling.
            It is done once per case, within `sdperf_build_timeout`, and every process begins with a copy of the files.
        resizes: Whether a loaded component serves other sizes too (`Runner.resize`); a graph only if it was exported
            with dynamic shapes.
        repeats_on: Device kinds on which equal calls give equal bits, in one process and in several.
    """

    name: str
    consumes: Literal["onnx", "module"]
    device_kinds: tuple[DeviceKind, ...]
    options: Mapping[str, EngineOption] = {}
    aliases: Mapping[str, Mapping[str, str]] = {}
    requirements: tuple[Requirement, ...] = ()
    extra: str = "cpu"
    fuses: bool = False
    compiles: bool = False
    resizes: bool = False
    repeats_on: tuple[DeviceKind, ...] = ()

    def missing(self, device_kind: DeviceKind = "cpu") -> str | None:
        """Say why the engine cannot run in this interpreter and what to install; None if it can.

        Looks for modules without importing them.

        Args:
            device_kind: Where it shall run: a GPU needs other builds of the same packages than a CPU.
        """
        for requirement in self.requirements:
            if importlib.util.find_spec(requirement.module) is None:
                install = requirement.install or self.install_command(device_kind)
                return f"package {requirement.module!r} is not installed; type: {install}"
        return None

    def all_options(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return the value of every option: the given ones, defaults for the rest."""
        return {name: given.get(name, option.default) for name, option in self.options.items()}

    def refuses_options(self, options: Mapping[str, str], device_kind: DeviceKind) -> str | None:
        """Say why values of options cannot be served, and what to type instead; None if they can.

        Args:
            options: The value of every option.
            device_kind: Where it shall run.
        """
        return None

    def install_command(self, device_kind: DeviceKind) -> str:
        """Return the command that brings the engine's packages: those of an extra of this project.

        The interpreter of a profile does without this project: there the packages have no versions.
        """
        lacking = [need for need in self.requirements if importlib.util.find_spec(need.module) is None]
        names = [need.package or need.module for need in lacking or self.requirements]
        return install_command(self.extra or device_kind, *names)

    def lowers(self, optimization: str) -> bool:
        """Say whether an optimization that is not supported can be proven here on a graph lowered to primitives."""
        return False

    def supports(self, optimization: str) -> str | None:
        """Say why an optimization is not applicable to this engine; None if it is supported.

        Args:
            optimization: Name of one optimization; a build is asked for optimization by optimization.
        """
        if self.fuses and optimization not in _PRECISIONS:
            return f"{self.name} fuses for itself; the operators of {optimization} are onnxruntime's own"
        return None

    def refuses(self, optimization: str, *, timed: bool) -> str | None:
        """Say why an optimization cannot be tested on this engine; None if it can.

        Args:
            optimization: Name of one optimization.
            timed: Whether it is measured: what only a lowered graph can show is no speed of the engine.
        """
        return self.supports(optimization) if timed or not self.lowers(optimization) else None

    @abstractmethod
    def default_optimizations(self, device_kind: str) -> tuple[str, ...]:
        """Return the optimizations that are run when `--optimization` is not given."""

    def without_kernels(self, model: Model) -> frozenset[str]:
        """Return the optimizations that cannot run at the widths of a model's UNet; the default leaves them out."""
        return frozenset()

    def preload(self, model: Model, component: str) -> None:
        """Import in a worker what `load` will need, and touch no device.

        The processes of one measurement do this side by side, and then load and run one by one. The default imports
        what `requirements` names.
        """
        for requirement in self.requirements:
            importlib.import_module(requirement.module)

    @abstractmethod
    def versions(self) -> dict[str, str]:
        """Return library versions by name. Runs in the worker, after the libraries are imported."""

    @abstractmethod
    def load(self, request: LoadRequest) -> AbstractContextManager[Runner]:
        """Load one component in a worker; leaving the context releases it."""

    @contextmanager
    def load_pipeline(self, requests: Mapping[str, LoadRequest]) -> Iterator[Mapping[str, Runner]]:
        """Load the components of a whole pipeline: each for itself, unless an engine compiles them as one.

        Args:
            requests: By component.
        """
        with ExitStack() as stack:
            yield {name: stack.enter_context(self.load(request)) for name, request in requests.items()}
