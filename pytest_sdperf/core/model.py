"""What a model promises: a Stable Diffusion pipeline with its shapes, weights and torch modules.

Standard library only at import time: workers import this under foreign interpreters.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_sdperf.core.errors import WeightsError
from pytest_sdperf.core.files.arrays import Arrays
from pytest_sdperf.core.values import TensorSpec, Workload

if TYPE_CHECKING:
    import torch


class Model(ABC):
    """A Stable Diffusion pipeline: its components, shapes, weights and torch modules.

    Attributes:
        name: Catalog name.
        components: Names of the components that have weights, in the order of the data flow.
        height, width, steps, scheduler: Defaults of a request.
        guidance_scale: Weight of guidance in a request.
        thin: Whether this is a narrow twin for machines without a GPU.
        trained: Diffusers folder of the weights that come with the model; None where they are drawn from a seed.
    """

    name: str
    components: tuple[str, ...]
    height: int = 512
    width: int = 512
    steps: int = 50
    scheduler: str = "pndm"
    guidance_scale: float = 7.5
    thin: bool = False
    trained: Path | None = None

    @abstractmethod
    def config(self, component: str) -> dict[str, Any]:
        """Return the component's configuration as plain JSON data: it identifies the topology."""

    def parameters(self, component: str) -> int | None:
        """Return the number of parameters of a component, which tells how large builds get; None if nobody counted."""
        return None

    @abstractmethod
    def inputs(self, component: str, workload: Workload) -> tuple[TensorSpec, ...]:
        """Return the inputs in call order, at the shapes of `workload` (a UNet runs at twice the batch size)."""

    @abstractmethod
    def outputs(self, component: str, workload: Workload) -> tuple[TensorSpec, ...]:
        """Return the outputs in order."""

    def example(self, component: str, workload: Workload, *, seed: int = 0) -> Arrays:
        """Draw inputs: float32 and int64 numpy arrays by input name, equal for equal arguments, never zeros.

        By default numbers are normally distributed, and whole ones lie from 1 to 9.
        """
        import numpy as np

        random = np.random.default_rng(seed)
        return {
            spec.name: random.integers(1, 10, spec.shape)
            if spec.dtype == "int64"
            else random.standard_normal(spec.shape).astype(np.float32)
            for spec in self.inputs(component, workload)
        }

    @abstractmethod
    def module(
        self, component: str, *, weights: Path | None, dtype: str = "float32", device: str = "cpu"
    ) -> torch.nn.Module:
        """Return the component as a module whose `forward` takes `inputs` in order and returns a tuple of `outputs`.

        Args:
            component: One of `components`.
            weights: A safetensors file with float32 weights; None leaves the parameters on the meta device, and gives
                buffers that no such file stores their values, on the CPU.
            dtype: torch dtype name of parameters and inputs.
            device: torch device of the loaded module.
        """

    @abstractmethod
    def draw_weights(self, component: str, path: Path, *, seed: int = 0) -> None:
        """Write random weights to `path` (safetensors): seeded, every norm randomised, activations in fp16 range."""

    def import_weights(self, component: str, folder: Path, path: Path) -> None:
        """Write the weights of a local diffusers folder to `path` (safetensors, float32).

        Raises:
            WeightsError: The folder lacks the component, holds pickles only, or does not fit the configuration; by
                default every folder is refused.
        """
        raise WeightsError(
            f"model {self.name} takes no weights of a folder, and {folder} was given. Leave --sdperf-weights out, or "
            f"write {type(self).__name__}.import_weights."
        )

    def write_tokenizers(self, folder: Path, *, weights: Path | None) -> tuple[str, ...]:
        """Write or copy the tokenizer of each text encoder into `folder/tokenizer[_2]`; return the sub-folder names.

        By default there are none, which is right where no whole request is made.
        """
        return ()
