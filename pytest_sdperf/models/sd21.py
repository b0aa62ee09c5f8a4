"""Stable Diffusion 2.1 at 768 px (velocity prediction), 2.1 base at 512 px, and their thin twins.

Source: configurations of `stabilityai/stable-diffusion-2-1` and `stabilityai/stable-diffusion-2-1-base`.
"""

from __future__ import annotations

from pytest_sdperf.models._components import TextEncoder, UNet, vae_halves
from pytest_sdperf.models._released import (
    NARROW_OPENCLIP_H,
    NARROW_VAE,
    OPENCLIP_H,
    SCHEDULER,
    SCHEDULER_V,
    UNET,
    VAE,
    Config,
)
from pytest_sdperf.models._stable_diffusion import StableDiffusion

_UNET_BASE: Config = {
    **UNET,
    "attention_head_dim": [5, 10, 20, 20],
    "cross_attention_dim": 1024,
    "use_linear_projection": True,
}
_UNET: Config = {**_UNET_BASE, "sample_size": 96, "upcast_attention": True}
_NARROW_UNET: Config = {
    "attention_head_dim": [2, 4, 8, 8],
    "block_out_channels": [64, 128, 256, 256],
    "cross_attention_dim": 160,
    "sample_size": 16,
}
_TEXT_ENCODER = TextEncoder(OPENCLIP_H, pad_token="!")
_NARROW_TEXT_ENCODER = TextEncoder(NARROW_OPENCLIP_H, pad_token="!")

MODELS = (
    StableDiffusion(
        name="sd21",
        parts={"text_encoder": _TEXT_ENCODER, "unet": UNet(_UNET), **vae_halves({**VAE, "sample_size": 768})},
        scheduler_config=SCHEDULER_V,
        height=768,
        width=768,
        scheduler="ddim",
    ),
    StableDiffusion(
        name="sd21-base",
        parts={"text_encoder": _TEXT_ENCODER, "unet": UNet(_UNET_BASE), **vae_halves(VAE)},
        scheduler_config=SCHEDULER,
    ),
    StableDiffusion(
        name="sd21-thin",
        parts={
            "text_encoder": _NARROW_TEXT_ENCODER,
            "unet": UNet({**_UNET, **_NARROW_UNET}),
            **vae_halves({**VAE, **NARROW_VAE}),
        },
        scheduler_config=SCHEDULER_V,
        height=128,
        width=128,
        steps=4,
        scheduler="ddim",
        thin=True,
    ),
    StableDiffusion(
        name="sd21-base-thin",
        parts={
            "text_encoder": _NARROW_TEXT_ENCODER,
            "unet": UNet({**_UNET_BASE, **_NARROW_UNET}),
            **vae_halves({**VAE, **NARROW_VAE}),
        },
        scheduler_config=SCHEDULER,
        height=128,
        width=128,
        steps=4,
        thin=True,
    ),
)
