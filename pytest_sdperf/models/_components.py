"""The kinds of components that Stable Diffusion pipelines are made of: their tensors, examples and torch modules."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pytest_sdperf.core.contracts import Arrays
from pytest_sdperf.core.values import TensorSpec, Workload

if TYPE_CHECKING:
    import numpy as np
    import torch

LATENT_SCALE = 8
_LATENT_AXES = {0: "batch", 2: "latent_height", 3: "latent_width"}
_IMAGE_AXES = {0: "batch", 2: "height", 3: "width"}


@dataclasses.dataclass(frozen=True)
class Component(ABC):
    """One component of a pipeline.

    Attributes:
        config: Configuration, as in the `config.json` of a diffusers folder.
        folder: Sub-folder of a diffusers folder that holds its weights.
    """

    config: Mapping[str, Any]
    folder: str = ""

    @abstractmethod
    def inputs(self, workload: Workload) -> tuple[TensorSpec, ...]:
        """Return the inputs in call order."""

    @abstractmethod
    def outputs(self, workload: Workload) -> tuple[TensorSpec, ...]:
        """Return the outputs in order."""

    @abstractmethod
    def example(self, workload: Workload, generator: np.random.Generator) -> Arrays:
        """Draw inputs."""

    @abstractmethod
    def skeleton(self) -> torch.nn.Module:
        """Build the module on torch's default device, its weights not yet set."""

    def stored_name(self, parameter: str) -> str:
        """Return the name under which released checkpoints store a parameter of the skeleton."""
        return parameter

    def restore_buffers(self, module: torch.nn.Module, device: str) -> None:
        """Give buffers that no checkpoint stores their values, on `device`."""
        return


@dataclasses.dataclass(frozen=True)
class TextEncoder(Component):
    """A CLIP text encoder.

    Attributes:
        results: Its outputs: `last_hidden_state`, `penultimate_hidden_state`, `text_embeds` (projected and pooled).
        tokenizer: Sub-folder of its tokenizer.
        pad_token: Text that fills a prompt up to the sequence length.
        words: Words that a generated tokenizer knows as one token each.
    """

    folder: str = "text_encoder"
    results: tuple[str, ...] = ("last_hidden_state",)
    tokenizer: str = "tokenizer"
    pad_token: str = "<|endoftext|>"
    words: tuple[str, ...] = ()

    def inputs(self, workload: Workload) -> tuple[TensorSpec, ...]:
        """Return `input_ids` [N, 77]."""
        shape = (workload.batch_size, self.config["max_position_embeddings"])
        return (TensorSpec("input_ids", "int64", shape, {0: "batch"}),)

    def outputs(self, workload: Workload) -> tuple[TensorSpec, ...]:
        """Return hidden states [N, 77, hidden] and text embeddings [N, projection]."""
        batch, length = workload.batch_size, self.config["max_position_embeddings"]
        shapes = {
            "last_hidden_state": (batch, length, self.config["hidden_size"]),
            "penultimate_hidden_state": (batch, length, self.config["hidden_size"]),
            "text_embeds": (batch, self.config["projection_dim"]),
        }
        return tuple(TensorSpec(name, "float", shapes[name], {0: "batch"}) for name in self.results)

    def example(self, workload: Workload, generator: np.random.Generator) -> Arrays:
        """Draw token ids: begin, words, end, then padding with the end token."""
        import numpy as np

        batch, length = workload.batch_size, self.config["max_position_embeddings"]
        begin, end = self.config["vocab_size"] - 2, self.config["vocab_size"] - 1
        ids = np.full((batch, length), end, dtype=np.int64)
        ids[:, 0] = begin
        for row in ids:
            words = int(generator.integers(8, length - 1))
            row[1 : words + 1] = generator.integers(1, begin, size=words)
        return {"input_ids": ids}

    def skeleton(self) -> torch.nn.Module:
        """Build the encoder."""
        from pytest_sdperf.models._wrappers import wrap_text_encoder

        return wrap_text_encoder(dict(self.config), self.results)

    def stored_name(self, parameter: str) -> str:
        """Return the released name; transformers 5 dropped the prefix `text_model` of the plain encoder."""
        name = parameter.removeprefix("text_encoder.")
        return name if name.startswith(("text_model.", "text_projection.")) else f"text_model.{name}"

    def restore_buffers(self, module: torch.nn.Module, device: str) -> None:
        """Number the positions."""
        import torch

        for child in module.modules():
            if "position_ids" in dict(child.named_buffers(recurse=False)):
                length = self.config["max_position_embeddings"]
                child.position_ids = torch.arange(length, device=device).expand((1, -1))


@dataclasses.dataclass(frozen=True)
class UNet(Component):
    """A conditional UNet; it runs at twice the batch size, for guidance.

    Attributes:
        time_ids: Number of sizes that condition it beside the pooled text: none before SDXL, six for SDXL (original
            size, crop, target size), five for its refiner (original size, crop, aesthetic score).
    """

    folder: str = "unet"
    time_ids: int = 0

    def inputs(self, workload: Workload) -> tuple[TensorSpec, ...]:
        """Return `sample` [2N, 4, H/8, W/8], `timestep` [1], `encoder_hidden_states` [2N, 77, C] and SDXL's extras.

        `timestep` stays float32 in every build: Euler's are fractional and float16 cannot tell 980.6 from 981.
        """
        batch, config = 2 * workload.batch_size, self.config
        latents = (batch, config["in_channels"], workload.height // LATENT_SCALE, workload.width // LATENT_SCALE)
        specs = [
            TensorSpec("sample", "float", latents, _LATENT_AXES),
            TensorSpec("timestep", "float32", (1,)),
            TensorSpec("encoder_hidden_states", "float", (batch, 77, config["cross_attention_dim"]), {0: "batch"}),
        ]
        if self.time_ids:
            pooled = config["projection_class_embeddings_input_dim"] - self.time_ids * config["addition_time_embed_dim"]
            specs += [
                TensorSpec("text_embeds", "float", (batch, pooled), {0: "batch"}),
                TensorSpec("time_ids", "float", (batch, self.time_ids), {0: "batch"}),
            ]
        return tuple(specs)

    def outputs(self, workload: Workload) -> tuple[TensorSpec, ...]:
        """Return `out_sample`, of the shape of `sample`."""
        sample = self.inputs(workload)[0]
        return (dataclasses.replace(sample, name="out_sample"),)

    def example(self, workload: Workload, generator: np.random.Generator) -> Arrays:
        """Draw noise and conditions."""
        import numpy as np

        arrays: dict[str, np.ndarray[Any, Any]] = {}
        for spec in self.inputs(workload):
            if spec.name == "timestep":
                arrays[spec.name] = generator.integers(1, 1000, size=spec.shape).astype(np.float32)
            elif spec.name == "time_ids":
                arrays[spec.name] = generator.integers(1, 1024, size=spec.shape).astype(np.float32)
            else:
                arrays[spec.name] = generator.standard_normal(spec.shape, dtype=np.float32)
        return arrays

    def skeleton(self) -> torch.nn.Module:
        """Build the UNet."""
        from pytest_sdperf.models._wrappers import wrap_unet

        return wrap_unet(dict(self.config), added_conditions=self.time_ids > 0)

    def stored_name(self, parameter: str) -> str:
        """Return the released name."""
        return parameter.removeprefix("unet.")


@dataclasses.dataclass(frozen=True)
class VaeDecoder(Component):
    """The decoding half of an autoencoder."""

    folder: str = "vae"

    def inputs(self, workload: Workload) -> tuple[TensorSpec, ...]:
        """Return `latent_sample` [N, 4, H/8, W/8], already divided by the scaling factor."""
        height, width = workload.height // LATENT_SCALE, workload.width // LATENT_SCALE
        shape = (workload.batch_size, self.config["latent_channels"], height, width)
        return (TensorSpec("latent_sample", "float", shape, _LATENT_AXES),)

    def outputs(self, workload: Workload) -> tuple[TensorSpec, ...]:
        """Return `sample` [N, 3, H, W], in [-1, 1] but for overshoot."""
        shape = (workload.batch_size, self.config["out_channels"], workload.height, workload.width)
        return (TensorSpec("sample", "float", shape, _IMAGE_AXES),)

    def example(self, workload: Workload, generator: np.random.Generator) -> Arrays:
        """Draw latents at the scale of real ones."""
        import numpy as np

        (spec,) = self.inputs(workload)
        latents = generator.standard_normal(spec.shape, dtype=np.float32)
        return {spec.name: latents / np.float32(self.config["scaling_factor"])}

    def skeleton(self) -> torch.nn.Module:
        """Build the decoder and the convolution before it."""
        from pytest_sdperf.models._wrappers import wrap_vae_decoder

        return wrap_vae_decoder(dict(self.config))


@dataclasses.dataclass(frozen=True)
class VaeEncoder(Component):
    """The encoding half of an autoencoder."""

    folder: str = "vae"

    def inputs(self, workload: Workload) -> tuple[TensorSpec, ...]:
        """Return `sample` [N, 3, H, W] in [-1, 1]."""
        shape = (workload.batch_size, self.config["in_channels"], workload.height, workload.width)
        return (TensorSpec("sample", "float", shape, _IMAGE_AXES),)

    def outputs(self, workload: Workload) -> tuple[TensorSpec, ...]:
        """Return `latent_parameters` [N, 8, H/8, W/8]: mean and log-variance."""
        height, width = workload.height // LATENT_SCALE, workload.width // LATENT_SCALE
        shape = (workload.batch_size, 2 * self.config["latent_channels"], height, width)
        return (TensorSpec("latent_parameters", "float", shape, _LATENT_AXES),)

    def example(self, workload: Workload, generator: np.random.Generator) -> Arrays:
        """Draw an image of noise."""
        import numpy as np

        (spec,) = self.inputs(workload)
        return {spec.name: generator.uniform(-1, 1, spec.shape).astype(np.float32)}

    def skeleton(self) -> torch.nn.Module:
        """Build the encoder and the convolution after it."""
        from pytest_sdperf.models._wrappers import wrap_vae_encoder

        return wrap_vae_encoder(dict(self.config))


def vae_halves(config: Mapping[str, Any]) -> dict[str, Component]:
    """Return the two components of one autoencoder; their weights are disjoint parts of one set."""
    return {"vae_decoder": VaeDecoder(config), "vae_encoder": VaeEncoder(config)}
