"""A Stable Diffusion pipeline assembled from its components: the base of every model file here."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_sdperf.core.contracts import Arrays, Model
from pytest_sdperf.core.errors import UnknownNameError
from pytest_sdperf.core.values import TensorSpec, Workload
from pytest_sdperf.models import _diffusers_folder, _tokenizer, _weights
from pytest_sdperf.models._components import Component, TextEncoder
from pytest_sdperf.models._parameters import PARAMETERS

if TYPE_CHECKING:
    import torch

_FOLDERS = {"vae_encoder": "vae", "vae_decoder": "vae"}


@dataclasses.dataclass(frozen=True)
class StableDiffusion(Model):
    """One pipeline.

    Attributes:
        name: Catalog name.
        parts: Component name -> component, in the order of the data flow.
        scheduler_config: Released scheduler configuration; `config("scheduler")` returns it.
        height, width, steps, scheduler, guidance_scale, thin, trained: See `Model`.
    """

    name: str
    parts: Mapping[str, Component]
    scheduler_config: Mapping[str, Any]
    height: int = 512
    width: int = 512
    steps: int = 50
    scheduler: str = "pndm"
    guidance_scale: float = 7.5
    thin: bool = False
    trained: Path | None = None

    @property
    def components(self) -> tuple[str, ...]:  # type: ignore[override]  # derived, therefore read-only
        """Names of the components that have weights."""
        return tuple(self.parts)

    def variant(self, name: str, *, config: Mapping[str, Mapping[str, Any]], **defaults: Any) -> StableDiffusion:
        """Return another pipeline, which differs in some settings: a model of your own in one call.

        Args:
            name: Its catalog name.
            config: Component, `vae` for both halves of the autoencoder, or `scheduler` -> the settings that differ, as
                in the `config.json` of a diffusers folder.
            defaults: What else differs: `height`, `width`, `steps`, `scheduler`, `guidance_scale`, `thin`.

        Raises:
            UnknownNameError: It has no such component.
        """
        known = {*self.parts, "vae", "scheduler"}
        for component in config:
            if component not in known:
                raise UnknownNameError(f"component of {self.name}", component, known)
        parts = {
            one: dataclasses.replace(
                part, config={**part.config, **config.get(_FOLDERS.get(one, one), {}), **config.get(one, {})}
            )
            for one, part in self.parts.items()
        }
        scheduler = {**self.scheduler_config, **config.get("scheduler", {})}
        fields = {"trained": None, **defaults}
        return dataclasses.replace(self, name=name, parts=parts, scheduler_config=scheduler, **fields)

    def part(self, component: str) -> Component:
        """Return one component.

        Raises:
            UnknownNameError: The pipeline has no such component.
        """
        try:
            return self.parts[component]
        except KeyError:
            raise UnknownNameError(f"component of {self.name}", component, self.parts) from None

    def config(self, component: str) -> dict[str, Any]:
        """Return a copy of the configuration of a component, or of the `scheduler`."""
        return dict(self.scheduler_config if component == "scheduler" else self.part(component).config)

    def parameters(self, component: str) -> int | None:
        """Return the number of parameters; None for a pipeline that is not one of this package's."""
        return PARAMETERS.get(self.name, {}).get(component)

    def inputs(self, component: str, workload: Workload) -> tuple[TensorSpec, ...]:
        """Return the inputs in call order."""
        return self.part(component).inputs(workload)

    def outputs(self, component: str, workload: Workload) -> tuple[TensorSpec, ...]:
        """Return the outputs in order."""
        return self.part(component).outputs(workload)

    def example(self, component: str, workload: Workload, *, seed: int = 0) -> Arrays:
        """Draw inputs with numpy, so that they are equal on every device."""
        import numpy as np

        return self.part(component).example(workload, np.random.default_rng(seed))

    def module(
        self, component: str, *, weights: Path | None, dtype: str = "float32", device: str = "cpu"
    ) -> torch.nn.Module:
        """Build the component on the meta device and, given a file, put its weights in without a second copy."""
        part = self.part(component)
        module = _weights.skeleton(part)
        if weights is None:
            part.restore_buffers(module, "cpu")
        else:
            _weights.load(part, module, weights, dtype=dtype, device=device)
        return module

    def draw_weights(self, component: str, path: Path, *, seed: int = 0) -> None:
        """Write seeded random weights."""
        _weights.draw(self.part(component), path, seed=seed)

    def import_weights(self, component: str, folder: Path, path: Path) -> None:
        """Write the weights of a local diffusers folder."""
        _diffusers_folder.check_prediction(folder, self.scheduler_config)
        _diffusers_folder.import_weights(self.part(component), folder, path)

    def write_tokenizers(self, folder: Path, *, weights: Path | None) -> tuple[str, ...]:
        """Copy the tokenizers of a diffusers folder; generate those that it does not provide."""
        encoders = [part for part in self.parts.values() if isinstance(part, TextEncoder)]
        for encoder in encoders:
            source = None if weights is None else weights / encoder.tokenizer
            target = folder / encoder.tokenizer
            if not (source and _tokenizer.copy(source, target)):
                _tokenizer.generate(
                    target,
                    vocabulary_size=encoder.config["vocab_size"],
                    length=encoder.config["max_position_embeddings"],
                    pad_token=encoder.pad_token,
                    words=encoder.words,
                )
        return tuple(encoder.tokenizer for encoder in encoders)
