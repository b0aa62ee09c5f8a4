"""Prompt -> image with any engine per component: tokens, text encoders, guided denoising loop, decoder.

The arithmetic is that of diffusers' `StableDiffusionPipeline` and `StableDiffusionXLPipeline` (and, for a refiner,
`StableDiffusionXLImg2ImgPipeline`), so that results can be compared; only the components are exchangeable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_sdperf.core import progress
from pytest_sdperf.core.components import component_dtype
from pytest_sdperf.core.contracts import Model
from pytest_sdperf.core.schedulers import make_scheduler
from pytest_sdperf.core.values import Workload
from pytest_sdperf.tasks.request.prompts import (
    REFINER_TIME_IDS,
    Call,
    PromptEncoder,
    guided_conditions,
    time_id_count,
)

if TYPE_CHECKING:
    import torch

OnStep = Callable[[int, float, "torch.Tensor"], None]

REFINER_STRENGTH = 0.3


@dataclass(frozen=True)
class PipelineResult:
    """One request's result.

    Attributes:
        image: [N, 3, H, W], in [-1, 1] but for overshoot (not clipped).
        latents: [N, 4, H/8, W/8] after the last step, in the scale of the UNet.
        unet_calls: UNet calls that were made.
        vae_dtype: Dtype in which the decoder was asked to run.
    """

    image: torch.Tensor
    latents: torch.Tensor
    unet_calls: int
    vae_dtype: str


@dataclass(frozen=True)
class _Start:
    """State before the first step; timesteps are in host memory, because reading them must not wait for the device."""

    scheduler: Any
    timesteps: torch.Tensor
    latents: torch.Tensor


def draw_noise(shape: Sequence[int], seed: int) -> torch.Tensor:
    """Draw standard normal float32 noise with numpy: equal on every device, its first images equal for every batch."""
    import numpy as np
    import torch

    return torch.from_numpy(np.random.default_rng(seed).standard_normal(tuple(shape), dtype=np.float32))


def rounded_otherwise(noise: torch.Tensor, number: int, dtype: torch.dtype) -> torch.Tensor:
    """Return noise that a dtype can hardly tell from the given one: each value is moved by a unit at most.

    Args:
        noise: Any shape, in float32 or in the dtype itself.
        number: Each number is another rounding, and the same one everywhere.
        dtype: The dtype.
    """
    import numpy as np
    import torch

    unit = torch.finfo(dtype).eps / 2
    shares = torch.from_numpy(np.random.default_rng(number).uniform(-unit, unit, tuple(noise.shape)))
    return (noise.double() * (1 + shares.to(noise.device))).to(noise.dtype)


class TextToImage:
    """A pipeline whose components are callables on dictionaries of tensors.

    Example::

        pipeline = TextToImage(model, call, tokenizers=folder, dtype="float16", device="cuda:0")
        result = pipeline.generate(["an astronaut"], seed=0, workload=Workload(steps=50))
    """

    def __init__(self, model: Model, call: Mapping[str, Call], *, tokenizers: Path, dtype: str, device: str) -> None:
        """Prepare a pipeline.

        Args:
            model: Gives configurations and shapes.
            call: Component name -> callable from inputs by name to outputs by name, on `device`.
            tokenizers: Folder that `model.write_tokenizers` filled.
            dtype: Dtype of latents and conditions.
            device: torch device of every tensor that components receive and return.
        """
        self.model, self.dtype, self.device = model, dtype, device
        self._call = call
        self._prompts = PromptEncoder(model, call, tokenizers=tokenizers, device=device)

    def generate(
        self,
        prompts: Sequence[str],
        *,
        seed: int,
        workload: Workload,
        negative_prompt: str = "",
        guidance_scale: float | None = None,
        on_step: OnStep | None = None,
        noise: torch.Tensor | None = None,
        start: torch.Tensor | None = None,
        strength: float = REFINER_STRENGTH,
        rounding: int = 0,
    ) -> PipelineResult:
        """Make one image per prompt.

        Args:
            prompts: As many as `workload.batch_size`.
            seed: Seed of the initial latents.
            workload: Size, steps and scheduler.
            negative_prompt: What guidance leads away from, the same for every image; an empty text is encoded too.
            guidance_scale: Weight of guidance; the model's if not given.
            on_step: Called after every UNet call with its index, timestep and the new latents.
            noise: Standard normal noise that the first latents are made of; drawn from the seed if not given.
            start: Latents of an image that a refiner starts from; drawn from the seed if not given.
            strength: Part of the steps that a refiner makes.
            rounding: Number of another rounding of the initial noise (`rounded_otherwise`); 0 leaves it as it is.

        Raises:
            ValueError: The number of prompts is not the batch size.
        """
        import torch

        weight = self.model.guidance_scale if guidance_scale is None else guidance_scale
        if len(prompts) != workload.batch_size:
            raise ValueError(f"{len(prompts)} prompts for a batch size of {workload.batch_size}")
        with torch.no_grad():
            negative = self._prompts.encode([negative_prompt] * len(prompts))
            positive = self._prompts.encode(prompts)
            conditions = guided_conditions(self.model, negative, positive, workload=workload, dtype=self._dtype)
            noise = self._noise(workload, seed) if noise is None else noise
            noise = rounded_otherwise(noise, rounding, self._dtype) if rounding else noise
            start_state = self._begin(workload, seed=seed, noise=noise, start=start, strength=strength)
            latents = self._denoise(start_state, conditions, guidance_scale=weight, on_step=on_step)
            return self._decode(latents, len(start_state.timesteps))

    @property
    def _dtype(self) -> torch.dtype:
        import torch

        dtype: torch.dtype = getattr(torch, self.dtype)
        return dtype

    def _noise(self, workload: Workload, seed: int) -> torch.Tensor:
        return draw_noise((workload.batch_size, *self.model.inputs("unet", workload)[0].shape[1:]), seed)

    def _begin(
        self,
        workload: Workload,
        *,
        seed: int,
        noise: torch.Tensor,
        start: torch.Tensor | None,
        strength: float,
    ) -> _Start:
        scheduler = make_scheduler(workload.scheduler, self.model.config("scheduler"))
        scheduler.set_timesteps(workload.steps, device="cpu")
        noise = noise.to(self.device, self._dtype)
        if time_id_count(self.model) != REFINER_TIME_IDS:
            return _Start(scheduler, scheduler.timesteps, noise * scheduler.init_noise_sigma)
        image = draw_noise(noise.shape, seed + 1) if start is None else start
        skipped = workload.steps - max(1, min(int(workload.steps * strength), workload.steps))
        timesteps = scheduler.timesteps[skipped * scheduler.order :]
        if hasattr(scheduler, "set_begin_index"):
            scheduler.set_begin_index(skipped * scheduler.order)
        first = timesteps[:1].repeat(workload.batch_size)
        return _Start(scheduler, timesteps, scheduler.add_noise(image.to(self.device, self._dtype), noise, first))

    def _denoise(
        self, start: _Start, conditions: dict[str, torch.Tensor], *, guidance_scale: float, on_step: OnStep | None
    ) -> torch.Tensor:
        import torch

        scheduler, latents = start.scheduler, start.latents
        on_device = start.timesteps.to(self.device, torch.float32)
        for index, timestep in enumerate(start.timesteps):
            sample = scheduler.scale_model_input(torch.cat([latents, latents]), timestep)
            inputs = {"sample": sample, "timestep": on_device[index : index + 1], **conditions}
            noise = self._call["unet"](inputs)["out_sample"].to(self._dtype)
            negative, positive = noise.chunk(2)
            guided = negative + guidance_scale * (positive - negative)
            latents = scheduler.step(guided, timestep, latents, return_dict=False)[0]
            if on_step is not None:  # of a request that is not timed
                progress.at(index + 1, len(start.timesteps), "step")
                on_step(index, float(timestep), latents)
        return latents

    def _decode(self, latents: torch.Tensor, unet_calls: int) -> PipelineResult:
        import torch

        dtype = component_dtype(self.model, "vae_decoder", self.dtype)
        scaled = latents.to(getattr(torch, dtype)) / self.model.config("vae_decoder")["scaling_factor"]
        image = self._call["vae_decoder"]({"latent_sample": scaled})["sample"]
        return PipelineResult(image.clone(), latents, unet_calls, dtype)
