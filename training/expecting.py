"""Write what the weights in the package draw: `PYTHONPATH=. python training/expecting.py`, once for new weights.

The pictures are those of diffusers' own pipeline in float32 on the CPU, and not of the suite's: each has to draw what
the other one does. It takes three to five minutes of one core.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from diffusers import StableDiffusionPipeline

from pytest_sdperf.builds.fingerprint import library_versions
from pytest_sdperf.builds.weights_identity import weights_identity
from pytest_sdperf.checks.semantics.expected import FILE
from pytest_sdperf.checks.semantics.scoring import Score, score
from pytest_sdperf.core.scenes import PROMPT_COUNT, prompt_scenes
from pytest_sdperf.models.shapes import SHAPES
from pytest_sdperf.tasks.request.text_to_image import draw_noise

if TYPE_CHECKING:
    import numpy as np

    Image = np.ndarray[Any, Any]

LIBRARIES = ("torch", "diffusers", "transformers")
_BATCH = 10


def draw(folder: Path, *, count: int = PROMPT_COUNT) -> Iterator[Image]:
    """Yield the first `count` fixed prompts as images [3, 128, 128], not clipped."""
    pipeline = StableDiffusionPipeline.from_pretrained(str(folder), local_files_only=True, dtype=torch.float32)
    pipeline.set_progress_bar_config(disable=True)
    prompts = [scene.caption for scene in prompt_scenes(count)]
    size = SHAPES.height // 8
    noise = draw_noise((count, 4, size, size), seed=0)
    for start in range(0, count, _BATCH):
        part = slice(start, start + _BATCH)
        latents = pipeline(
            prompt=prompts[part],
            num_inference_steps=SHAPES.steps,
            guidance_scale=SHAPES.guidance_scale,
            height=SHAPES.height,
            width=SHAPES.width,
            latents=noise[part],
            output_type="latent",
        ).images
        with torch.no_grad():
            yield from pipeline.vae.decode(latents / pipeline.vae.config.scaling_factor).sample.numpy()


def as_json(one: Score) -> dict[str, Any]:
    """Return a score with the digits that a picture can be told by."""
    places = [[round(value, 3) for value in place] for place in one.places]
    return {"wrong": list(one.wrong), "clearness": round(one.clearness, 5), "places": places}


def write(folder: Path, file: Path) -> None:
    """Write the scores of every fixed prompt."""
    scores = [score(scene, image) for scene, image in zip(prompt_scenes(), draw(folder), strict=True)]
    request = {"weights": weights_identity(str(folder)), "steps": SHAPES.steps, "scheduler": SHAPES.scheduler}
    head = {"request": request, "versions": library_versions(*LIBRARIES)}
    rows = ",\n  ".join(json.dumps(as_json(one)) for one in scores)
    lines = [f" {json.dumps(name)}: {json.dumps(value)},\n" for name, value in head.items()]
    file.write_text(f'{{\n{"".join(lines)} "scores": [\n  {rows}\n ]\n}}\n', encoding="utf-8")


if __name__ == "__main__":
    assert SHAPES.trained is not None
    write(SHAPES.trained, FILE)
