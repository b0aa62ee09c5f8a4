"""Configurations that several released pipelines share, as in their `config.json` files, and their narrow twins.

Plain data. A twin keeps every layer of the released model and only narrows it: two channels per normalisation group
(CUDA's GroupNorm refuses odd numbers), attention heads whose size is a multiple of eight, a vocabulary of 1024.
Widths of the text are chosen unlike widths of the image, so that no wrong wiring fits by accident.
"""

from __future__ import annotations

from typing import Any

Config = dict[str, Any]

VAE: Config = {
    "act_fn": "silu",
    "block_out_channels": [128, 256, 512, 512],
    "down_block_types": ["DownEncoderBlock2D"] * 4,
    "force_upcast": False,
    "in_channels": 3,
    "latent_channels": 4,
    "layers_per_block": 2,
    "norm_num_groups": 32,
    "out_channels": 3,
    "sample_size": 512,
    "scaling_factor": 0.18215,
    "up_block_types": ["UpDecoderBlock2D"] * 4,
}
VAE_XL: Config = {**VAE, "force_upcast": True, "sample_size": 1024, "scaling_factor": 0.13025}
# Eight groups instead of 32: an autoencoder works on whole images, and half precision on a CPU is very slow there.
NARROW_VAE: Config = {"block_out_channels": [16, 32, 64, 64], "norm_num_groups": 8, "sample_size": 128}

_CLIP: Config = {
    "attention_dropout": 0.0,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "layer_norm_eps": 1e-05,
    "max_position_embeddings": 77,
    "pad_token_id": 1,
    "vocab_size": 49408,
}
CLIP_L: Config = {
    **_CLIP,
    "hidden_act": "quick_gelu",
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
    "projection_dim": 768,
}
OPENCLIP_H: Config = {
    **_CLIP,
    "hidden_act": "gelu",
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_attention_heads": 16,
    "num_hidden_layers": 23,
    "projection_dim": 512,
}
OPENCLIP_BIG_G: Config = {
    **_CLIP,
    "hidden_act": "gelu",
    "hidden_size": 1280,
    "intermediate_size": 5120,
    "num_attention_heads": 20,
    "num_hidden_layers": 32,
    "projection_dim": 1280,
}
NARROW_CLIP_L: Config = {
    **CLIP_L,
    "hidden_size": 96,
    "intermediate_size": 384,
    "projection_dim": 96,
    "vocab_size": 1024,
}
NARROW_OPENCLIP_H: Config = {
    **OPENCLIP_H,
    "hidden_size": 160,
    "intermediate_size": 640,
    "num_attention_heads": 10,
    "projection_dim": 80,
    "vocab_size": 1024,
}
NARROW_OPENCLIP_BIG_G: Config = {
    **OPENCLIP_BIG_G,
    "hidden_size": 192,
    "intermediate_size": 768,
    "num_attention_heads": 12,
    "projection_dim": 192,
    "vocab_size": 1024,
}

UNET: Config = {
    "act_fn": "silu",
    "attention_head_dim": 8,
    "block_out_channels": [320, 640, 1280, 1280],
    "center_input_sample": False,
    "cross_attention_dim": 768,
    "down_block_types": ["CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"],
    "downsample_padding": 1,
    "flip_sin_to_cos": True,
    "freq_shift": 0,
    "in_channels": 4,
    "layers_per_block": 2,
    "mid_block_scale_factor": 1,
    "norm_eps": 1e-05,
    "norm_num_groups": 32,
    "out_channels": 4,
    "sample_size": 64,
    "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"],
}

_SCHEDULER: Config = {
    "beta_end": 0.012,
    "beta_schedule": "scaled_linear",
    "beta_start": 0.00085,
    "clip_sample": False,
    "num_train_timesteps": 1000,
    "set_alpha_to_one": False,
    "skip_prk_steps": True,
    "steps_offset": 1,
    "trained_betas": None,
}
SCHEDULER: Config = {"_class_name": "PNDMScheduler", **_SCHEDULER, "prediction_type": "epsilon"}
SCHEDULER_V: Config = {"_class_name": "DDIMScheduler", **_SCHEDULER, "prediction_type": "v_prediction"}
SCHEDULER_XL: Config = {
    "_class_name": "EulerDiscreteScheduler",
    **_SCHEDULER,
    "interpolation_type": "linear",
    "prediction_type": "epsilon",
    "sample_max_value": 1.0,
    "timestep_spacing": "leading",
    "use_karras_sigmas": False,
}
