"""The autoencoder: trained on fresh drawings, then scaled so that latents have the size that its configuration says."""

from __future__ import annotations

from collections.abc import Callable

import torch
from diffusers import AutoencoderKL
from drawing import SceneTable, draw

_KL_WEIGHT = 5e-4


def reconstruction_loss(vae: AutoencoderKL, scenes: SceneTable, batch: int) -> Callable[[], torch.Tensor]:
    """Return what draws a batch and returns L1 + L2 of its reconstruction and a little divergence from N(0, 1)."""
    count, device = len(scenes.shape), scenes.shape.device

    def loss() -> torch.Tensor:
        images = draw(scenes.rows(torch.randint(count, (batch,), device=device)))
        mean, log_variance = vae.quant_conv(vae.encoder(images)).float().chunk(2, dim=1)
        log_variance = log_variance.clamp(-30, 20)
        latents = mean + (log_variance / 2).exp() * torch.randn_like(mean)
        gap = vae.decoder(vae.post_quant_conv(latents)).float() - images
        divergence = (mean**2 + log_variance.exp() - 1 - log_variance).mean() / 2
        return gap.abs().mean() + (gap**2).mean() + _KL_WEIGHT * divergence

    return loss


@torch.no_grad()
def encode(vae: AutoencoderKL, images: torch.Tensor) -> torch.Tensor:
    """Return the means of the latents [N, 4, 16, 16], before the scaling factor."""
    mean: torch.Tensor = vae.quant_conv(vae.encoder(images)).chunk(2, dim=1)[0]
    return mean


@torch.no_grad()
def fit_scale(vae: AutoencoderKL, images: torch.Tensor) -> None:
    """Shift and scale latents inside the two 1x1 convolutions beside them.

    Afterwards each channel, times the scaling factor of the configuration, has mean 0 and variance 1, and what is
    decoded has not changed. So the factor stays that of Stable Diffusion 1.5, and losing it shows as it does there.
    """
    parts = torch.cat([encode(vae, part) for part in images.split(256)])
    centre = parts.mean(dim=(0, 2, 3))
    scale = parts.std(dim=(0, 2, 3)) * vae.config.scaling_factor
    channels = len(centre)
    before, after = vae.quant_conv, vae.post_quant_conv
    before.weight[:channels] /= scale[:, None, None, None]
    before.bias[:channels] = (before.bias[:channels] - centre) / scale
    before.bias[channels:] -= 2 * scale.log()
    after.bias += after.weight[:, :, 0, 0] @ centre
    after.weight *= scale[None, :, None, None]
