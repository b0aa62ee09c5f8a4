"""Decode latents that were kept, all by one decoder, so that pictures differ by their latents alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_sdperf.core.files.arrays import load_arrays, save_arrays
from pytest_sdperf.tasks import TaskContext
from pytest_sdperf.tasks._loading import loaded_component

DECODER = "vae_decoder"


def run(arguments: Mapping[str, Any], context: TaskContext) -> dict[str, Any]:
    """Decode the first image of every step.

    Args:
        arguments: As for `loading.loaded_component`, with `inputs`: an npz file of latents by name (steps, N, 4, H/8,
            W/8).
        context: The task's context.

    Returns:
        `outputs`: path of an npz file with pictures by the same names (steps, 3, H, W).
    """
    import numpy as np
    import torch

    decoded = {}
    with loaded_component(arguments, DECODER, context) as loaded:
        scale = loaded.model.config(DECODER)["scaling_factor"]
        for name, latents in load_arrays(Path(arguments["inputs"])).items():
            pictures = []
            for step in latents:
                sample = torch.from_numpy(np.nan_to_num(step[:1].astype(np.float32)) / scale)
                pictures.append(loaded.runner.call({"latent_sample": sample})["sample"][0].detach().cpu().numpy())
            decoded[name] = np.stack(pictures)
    return {"outputs": str(save_arrays(context.out_dir / "outputs.npz", decoded))}
