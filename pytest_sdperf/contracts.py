"""What a plug-in promises: models, engines and their runners; `device` and `optimization` have the others.

Standard library only at import time: workers import this under foreign interpreters. Base classes instead of
Protocols, because each carries behaviour that authors should not write twice.
"""

from __future__ import annotations

import importlib
import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pytest_sdperf.device import DeviceKind
from pytest_sdperf.interpreter import PROJECT, has_suite, pip
from pytest_sdperf.optimization import Optimization as Optimization  # noqa: PLC0414 - re-exported for plug-ins
from pytest_sdperf.values import Build, TensorSpec, Workload

if TYPE_CHECKING:
    import numpy as np
    import torch

Arrays = Mapping[str, "np.ndarray[Any, Any]"]

# ----------------------------------------------------------------------------------------------------- models


class Model(ABC):
    """A Stable Diffusion pipeline: its components, shapes, weights and torch modules.

    Attributes:
        name: Catalog name.
        components: Names of the components that have weights, in the order of the data flow.
        height, width, steps, scheduler: Defaults of a request.
        thin: Whether this is a narrow twin for machines without a GPU.
    """

    name: str
    components: tuple[str, ...]
    height: int = 512
    width: int = 512
    steps: int = 50
    scheduler: str = "pndm"
    thin: bool = False

    @abstractmethod
    def config(self, component: str) -> dict[str, Any]:
        """Return the component's configuration as plain JSON data: it identifies the topology."""

    def parameters(self, component: str) -> int | None:
        """Return the number of parameters of a component, for estimates of size and time; None if nobody counted."""
        return None

    @abstractmethod
    def inputs(self, component: str, workload: Workload) -> tuple[TensorSpec, ...]:
        """Return the inputs in call order, at the shapes of `workload` (a UNet runs at twice the batch size)."""

    @abstractmethod
    def outputs(self, component: str, workload: Workload) -> tuple[TensorSpec, ...]:
        """Return the outputs in order."""

    @abstractmethod
    def example(self, component: str, workload: Workload, *, seed: int = 0) -> Arrays:
        """Draw inputs: float32 and int64 numpy arrays by input name, equal for equal arguments, never zeros."""

    @abstractmethod
    def module(
        self, component: str, *, weights: Path | None, floating: str = "float32", device: str = "cpu"
    ) -> torch.nn.Module:
        """Return the component as a module whose `forward` takes `inputs` in order and returns a tuple of `outputs`.

        Args:
            component: One of `components`.
            weights: A safetensors file with float32 weights; None leaves the parameters on the meta device, and gives
                buffers that no such file stores their values, on the CPU.
            floating: torch dtype name of parameters and inputs.
            device: torch device of the loaded module.
        """

    @abstractmethod
    def draw_weights(self, component: str, path: Path, *, seed: int = 0) -> None:
        """Write random weights to `path` (safetensors): seeded, every norm randomised, activations in fp16 range."""

    @abstractmethod
    def import_weights(self, component: str, folder: Path, path: Path) -> None:
        """Write the weights of a local diffusers folder to `path` (safetensors, float32).

        Raises:
            WeightsError: The folder lacks the component, holds pickles only, or does not fit the configuration.
        """

    @abstractmethod
    def write_tokenizers(self, folder: Path, *, weights: Path | None) -> tuple[str, ...]:
        """Write or copy the tokenizer of each text encoder into `folder/tokenizer[_2]`; return the sub-folder names."""


# ---------------------------------------------------------------------------------------------------- engines


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
        work_dir: Folder for the engine's own files (compiled engines, timing caches).
    """

    build: Build
    model: Model
    component: str
    workload: Workload
    device_kind: DeviceKind
    device_index: int
    options: Mapping[str, str]
    work_dir: Path


class Runner(ABC):
    """One loaded component. `bind`, then `run` and `synchronize` as often as wanted, then `fetch`."""

    @abstractmethod
    def bind(self, inputs: Arrays) -> None:
        """Place inputs on the device (numpy arrays by name, cast to the dtype that the build expects)."""

    @abstractmethod
    def run(self) -> None:
        """Start one call on the bound inputs; may return before the device has finished."""

    @abstractmethod
    def synchronize(self) -> None:
        """Return when the device has finished everything that `run` started."""

    @abstractmethod
    def fetch(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the outputs of the last call on the host, by output name, in the dtype that the build computes."""

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

    def facts(self) -> dict[str, Any]:
        """Return what really ran, as plain JSON data (providers, threads, nodes per provider, ...)."""
        return {}


class Engine(ABC):
    """One way to execute a component. One file each, registered through `pytest_sdperf_register`.

    Attributes:
        name: Name on the command line.
        consumes: `onnx` (loads an ONNX file) or `module` (loads the torch module).
        device_kinds: Where it runs.
        options: Name -> option.
        requirements: Packages it needs in its worker.
        extra: The extra of this project that brings them; empty stands for the one named as the device kind.
        compiles: Whether it compiles what it loads, which takes a minute or more.
    """

    name: str
    consumes: Literal["onnx", "module"]
    device_kinds: tuple[DeviceKind, ...]
    options: Mapping[str, EngineOption] = {}
    requirements: tuple[Requirement, ...] = ()
    extra: str = "cpu"
    compiles: bool = False

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

    def install_command(self, device_kind: DeviceKind) -> str:
        """Return the command that brings the engine's packages: an extra of this project.

        The interpreter of a profile does without this project: there the packages themselves are installed.
        """
        if has_suite():
            return f"{pip()} install '{PROJECT}[{self.extra or device_kind}]'"
        lacking = [need for need in self.requirements if importlib.util.find_spec(need.module) is None]
        names = [need.package or need.module for need in lacking or self.requirements]
        return f"{pip()} install {' '.join(names)}"

    def lowers(self, optimization: str) -> bool:
        """Say whether a rung that is not supported can be proven here on a graph lowered to primitives."""
        return False

    def supports(self, optimization: str) -> str | None:
        """Say why a rung is not applicable to this engine; None if it is supported.

        Args:
            optimization: Name of one rung; a build is asked for rung by rung.
        """
        return None

    def refuses(self, optimization: str, *, timed: bool) -> str | None:
        """Say why a rung cannot be tested on this engine; None if it can.

        Args:
            optimization: Name of one rung.
            timed: Whether it is measured: what only a lowered graph can show is no speed of the engine.
        """
        return self.supports(optimization) if timed or not self.lowers(optimization) else None

    @abstractmethod
    def default_optimizations(self, device_kind: str) -> tuple[str, ...]:
        """Return the rungs that are run when `--optimization` is not given."""

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


class PhaseListener(ABC):
    """Told by a worker's task when a phase begins and ends, so that memory can be watched outside timed regions."""

    @abstractmethod
    def phase(self, name: str) -> AbstractContextManager[None]:
        """Enter one phase: `load`, `first_run`, `second_run`, `warmup`, `timed`."""


class Silent(PhaseListener):
    """Listens to nothing."""

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Enter a phase that nobody watches."""
        yield
