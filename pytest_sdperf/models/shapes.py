"""A small Stable Diffusion that is trained to draw two plain shapes as a caption says.

Every block and layer of Stable Diffusion 1.5's UNet and autoencoder is there, narrower, so that every fusion has its
sites; the text encoder has four layers. It predicts velocity, like 2.1, because that is learnt in minutes.
`training/` made its weights.
"""

from __future__ import annotations

from pathlib import Path

from pytest_sdperf.core.scenes import IMAGE_SIZE, WORDS
from pytest_sdperf.models._components import TextEncoder, UNet, vae_halves
from pytest_sdperf.models._released import CLIP_L, NARROW_VAE, SCHEDULER_V, UNET, VAE
from pytest_sdperf.models._stable_diffusion import StableDiffusion

SHAPES = StableDiffusion(
    name="shapes",
    parts={
        "text_encoder": TextEncoder(
            {
                **CLIP_L,
                "hidden_size": 112,
                "intermediate_size": 448,
                "num_attention_heads": 7,
                "num_hidden_layers": 4,
                "projection_dim": 112,
                "vocab_size": 640,
            },
            words=WORDS,
        ),
        "unet": UNet(
            {
                **UNET,
                "attention_head_dim": 4,
                "block_out_channels": [32, 64, 96, 96],
                "cross_attention_dim": 112,
                "norm_num_groups": 16,
                "sample_size": IMAGE_SIZE // 8,
            }
        ),
        **vae_halves({**VAE, **NARROW_VAE, "sample_size": IMAGE_SIZE}),
    },
    scheduler_config=SCHEDULER_V,
    height=IMAGE_SIZE,
    width=IMAGE_SIZE,
    steps=20,
    scheduler="ddim",
    guidance_scale=3.0,
    thin=True,
    trained=Path(__file__).parent / "shapes_trained",
)

MODELS = (SHAPES,)
