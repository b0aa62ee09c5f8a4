"""Stable Diffusion 1.5 and its thin twin.

Source: `unet`, `vae`, `text_encoder` and `scheduler` configurations of `runwayml/stable-diffusion-v1-5`.
"""

from __future__ import annotations

from pytest_sdperf.models._components import TextEncoder, UNet, vae_halves
from pytest_sdperf.models._released import CLIP_L, NARROW_CLIP_L, NARROW_VAE, SCHEDULER, UNET, VAE
from pytest_sdperf.models._stable_diffusion import StableDiffusion

MODELS = (
    StableDiffusion(
        name="sd15",
        parts={"text_encoder": TextEncoder(CLIP_L), "unet": UNet(UNET), **vae_halves(VAE)},
        scheduler_config=SCHEDULER,
    ),
    StableDiffusion(
        name="sd15-thin",
        parts={
            "text_encoder": TextEncoder(NARROW_CLIP_L),
            "unet": UNet(
                {**UNET, "block_out_channels": [64, 128, 256, 256], "cross_attention_dim": 96, "sample_size": 16}
            ),
            **vae_halves({**VAE, **NARROW_VAE}),
        },
        scheduler_config=SCHEDULER,
        height=128,
        width=128,
        steps=4,
        thin=True,
    ),
)
