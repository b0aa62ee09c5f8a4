"""Decode latents that were kept, all by one decoder, so that pictures differ by their latents alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pytest_sdperf.core.files.arrays import load_arrays, save_arrays
from pytest_sdperf.tasks import TaskContext
from pytest_sdperf.tasks._execution import Execution, Ran
from pytest_sdperf.tasks._loading import loaded_component

DECODER = "vae_decoder"


@dataclass(frozen=True)
class DecodeSteps:
    """Latents that were kept.

    Attributes:
        case: A whole request, of which the decoder is loaded.
        latents: File (npz) with arrays by name (steps, N, 4, H/8, W/8).
    """

    case: Execution
    latents: Path


def run(request: DecodeSteps, context: TaskContext) -> Ran:
    """Decode the first image of every step.

    Returns:
        With pictures (steps, 3, H, W) by the same names as outputs.
    """
    import numpy as np
    import torch

    decoded = {}
    with loaded_component(request.case, DECODER, context) as loaded:
        scale = loaded.model.config(DECODER)["scaling_factor"]
        for name, latents in load_arrays(request.latents).items():
            pictures = []
            for step in latents:
                sample = torch.from_numpy(np.nan_to_num(step[:1].astype(np.float32)) / scale)
                pictures.append(loaded.runner.call({"latent_sample": sample})["sample"][0].detach().cpu().numpy())
            decoded[name] = np.stack(pictures)
    return Ran(str(save_arrays(context.out_dir / "outputs.npz", decoded)))
