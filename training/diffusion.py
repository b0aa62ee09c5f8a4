"""The text encoder and the UNet: velocity prediction on latents that were encoded once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from autoencoder import encode
from diffusers import AutoencoderKL, DDIMScheduler, UNet2DConditionModel
from drawing import SceneTable, draw
from transformers import CLIPTextModel

# A caption is dropped in one of ten, so that guidance has something to lead away from.
_WITHOUT_CAPTION = 0.1
_CHUNK = 512


@dataclass(frozen=True)
class Bank:
    """Encoded drawings.

    Attributes:
        latents: [N, 4, 16, 16], scaled.
        scene: Index of the scene of each [N].
    """

    latents: torch.Tensor
    scene: torch.Tensor


@torch.no_grad()
def fill_bank(vae: AutoencoderKL, scenes: SceneTable, *, size: int, until_s: float) -> Bank:
    """Draw and encode up to `size` scenes, fewer if the time is up."""
    device = scenes.shape.device
    latents, chosen, count = [], [], 0
    while count < size and (time.monotonic() < until_s or not count):
        index = torch.randint(len(scenes.shape), (min(_CHUNK, size - count),), device=device)
        latents.append(encode(vae, draw(scenes.rows(index))) * vae.config.scaling_factor)
        chosen.append(index)
        count += len(index)
        float(latents[-1][0, 0, 0, 0])  # waits, so that the time is that of the device
    return Bank(torch.cat(latents), torch.cat(chosen))


def token_table(tokenizer: Any, captions: Sequence[str], device: torch.device | str) -> torch.Tensor:
    """Return ids [captions + 1, 77]; the last row is the empty prompt."""
    texts = [*captions, ""]
    ids = tokenizer(texts, padding="max_length", max_length=tokenizer.model_max_length, truncation=True).input_ids
    return torch.tensor(ids, dtype=torch.int64, device=device)


def velocity_loss(
    text_encoder: CLIPTextModel, unet: UNet2DConditionModel, bank: Bank, tokens: torch.Tensor, *, batch: int
) -> Callable[[], torch.Tensor]:
    """Return what draws latents, captions, times and noise and returns the squared error of the velocity.

    Squared errors of velocities weigh the early, noisy steps, which decide what goes where, as much as the others.
    """
    from pytest_sdperf.core.schedulers import make_scheduler
    from pytest_sdperf.models.shapes import SHAPES

    device = bank.latents.device
    scheduler: DDIMScheduler = make_scheduler(SHAPES.scheduler, SHAPES.config("scheduler"))
    kept = scheduler.alphas_cumprod.to(device)
    empty = len(tokens) - 1

    def loss() -> torch.Tensor:
        index = torch.randint(len(bank.latents), (batch,), device=device)
        latents = bank.latents[index]
        told = torch.rand(batch, device=device) >= _WITHOUT_CAPTION
        ids = tokens[torch.where(told, bank.scene[index], empty)]
        times = torch.randint(len(kept), (batch,), device=device)
        noise = torch.randn_like(latents)
        signal = kept[times].sqrt()[:, None, None, None]
        spread = (1 - kept[times]).sqrt()[:, None, None, None]
        hidden = text_encoder(input_ids=ids).last_hidden_state
        velocity = unet(signal * latents + spread * noise, times, hidden, return_dict=False)[0]
        gap = velocity.float() - (signal * noise - spread * latents)
        return (gap**2).mean()

    return loss
