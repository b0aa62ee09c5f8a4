"""Stable Diffusion XL base, its refiner, and their thin twins.

Source: configurations of `stabilityai/stable-diffusion-xl-base-1.0` and `stabilityai/stable-diffusion-xl-refiner-1.0`.
Both text encoders hand over the hidden state before the last layer; the second one also its projected pooled state.
"""

from __future__ import annotations

from pytest_sdperf.models._components import TextEncoder, UNet, vae_halves
from pytest_sdperf.models._released import (
    CLIP_L,
    NARROW_CLIP_L,
    NARROW_OPENCLIP_BIG_G,
    NARROW_VAE,
    OPENCLIP_BIG_G,
    SCHEDULER_XL,
    UNET,
    VAE_XL,
    Config,
)
from pytest_sdperf.models._stable_diffusion import StableDiffusion

_UNET: Config = {
    **UNET,
    "addition_embed_type": "text_time",
    "addition_time_embed_dim": 256,
    "attention_head_dim": [5, 10, 20],
    "block_out_channels": [320, 640, 1280],
    "cross_attention_dim": 2048,
    "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"],
    "projection_class_embeddings_input_dim": 2816,
    "sample_size": 128,
    "transformer_layers_per_block": [1, 2, 10],
    "up_block_types": ["CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"],
    "use_linear_projection": True,
}
_REFINER_UNET: Config = {
    **_UNET,
    "attention_head_dim": [6, 12, 24, 24],
    "block_out_channels": [384, 768, 1536, 1536],
    "cross_attention_dim": 1280,
    "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"],
    "projection_class_embeddings_input_dim": 2560,
    "transformer_layers_per_block": 4,
    "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"],
}
# The pooled text embedding (192) and six or five size embeddings of 32 enter the narrow UNets.
_NARROW_UNET: Config = {
    **_UNET,
    "addition_time_embed_dim": 32,
    "attention_head_dim": [2, 4, 8],
    "block_out_channels": [64, 128, 256],
    "cross_attention_dim": 96 + 192,
    "projection_class_embeddings_input_dim": 192 + 6 * 32,
    "sample_size": 16,
}
_NARROW_REFINER_UNET: Config = {
    **_REFINER_UNET,
    "addition_time_embed_dim": 32,
    "attention_head_dim": [2, 4, 8, 8],
    "block_out_channels": [64, 128, 256, 256],
    "cross_attention_dim": 192,
    "projection_class_embeddings_input_dim": 192 + 5 * 32,
    "sample_size": 16,
}
_FIRST = ("penultimate_hidden_state",)
_SECOND = ("text_embeds", "penultimate_hidden_state")


def _second(config: Config) -> TextEncoder:
    return TextEncoder(config, results=_SECOND, folder="text_encoder_2", tokenizer="tokenizer_2", pad_token="!")


MODELS = (
    StableDiffusion(
        name="sdxl",
        parts={
            "text_encoder": TextEncoder(CLIP_L, results=_FIRST),
            "text_encoder_2": _second(OPENCLIP_BIG_G),
            "unet": UNet(_UNET, time_ids=6),
            **vae_halves(VAE_XL),
        },
        scheduler_config=SCHEDULER_XL,
        height=1024,
        width=1024,
        scheduler="euler",
    ),
    StableDiffusion(
        name="sdxl-refiner",
        parts={
            "text_encoder_2": _second(OPENCLIP_BIG_G),
            "unet": UNet(_REFINER_UNET, time_ids=5),
            **vae_halves(VAE_XL),
        },
        scheduler_config=SCHEDULER_XL,
        height=1024,
        width=1024,
        scheduler="euler",
    ),
    StableDiffusion(
        name="sdxl-thin",
        parts={
            "text_encoder": TextEncoder(NARROW_CLIP_L, results=_FIRST),
            "text_encoder_2": _second(NARROW_OPENCLIP_BIG_G),
            "unet": UNet(_NARROW_UNET, time_ids=6),
            **vae_halves({**VAE_XL, **NARROW_VAE}),
        },
        scheduler_config=SCHEDULER_XL,
        height=128,
        width=128,
        steps=4,
        scheduler="euler",
        thin=True,
    ),
    StableDiffusion(
        name="sdxl-refiner-thin",
        parts={
            "text_encoder_2": _second(NARROW_OPENCLIP_BIG_G),
            "unet": UNet(_NARROW_REFINER_UNET, time_ids=5),
            **vae_halves({**VAE_XL, **NARROW_VAE}),
        },
        scheduler_config=SCHEDULER_XL,
        height=128,
        width=128,
        steps=4,
        scheduler="euler",
        thin=True,
    ),
)
