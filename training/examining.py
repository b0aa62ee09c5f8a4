"""How well a written folder draws the fixed prompts: its images, their score, a sheet to look at."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from pytest_sdperf.core.scenes import PROMPT_COUNT, Scene, prompt_scenes
from pytest_sdperf.core.values import Workload
from pytest_sdperf.models.shapes import SHAPES
from pytest_sdperf.tasks.request.text_to_image import TextToImage, draw_noise

if TYPE_CHECKING:
    import numpy as np

    Images = np.ndarray[Any, Any]

_COMPONENTS = ("text_encoder", "unet", "vae_decoder")
_COLUMNS = 10


def draw_prompts(
    folder: Path, *, device: str, guidance_scale: float, count: int = PROMPT_COUNT, batch: int = PROMPT_COUNT
) -> Images:
    """Draw the first `count` fixed prompts from a diffusers folder in float32: [count, 3, 128, 128] in [-1, 1]."""
    import numpy as np

    prompts = [scene.caption for scene in prompt_scenes(count)]
    size = SHAPES.height // 8
    noise = draw_noise((count, 4, size, size), seed=0)
    images = []
    with tempfile.TemporaryDirectory() as written:
        pipeline = _pipeline(folder, Path(written), device)
        for start in range(0, count, batch):
            part = prompts[start : start + batch]
            workload = Workload(
                batch_size=len(part),
                height=SHAPES.height,
                width=SHAPES.width,
                steps=SHAPES.steps,
                scheduler=SHAPES.scheduler,
            )
            result = pipeline.generate(
                part,
                seed=0,
                workload=workload,
                guidance_scale=guidance_scale,
                noise=noise[start : start + batch],
            )
            images.append(result.image.cpu().numpy())
    return np.concatenate(images)


def _pipeline(folder: Path, written: Path, device: str) -> TextToImage:
    """Load a folder as the suite does; TF32 is off."""
    calls: dict[str, Any] = {}
    for name in _COMPONENTS:
        path = written / f"{name}.safetensors"
        SHAPES.import_weights(name, folder, path)
        calls[name] = _call(SHAPES.module(name, weights=path, device=device), name)
    SHAPES.write_tokenizers(written, weights=folder)
    return TextToImage(SHAPES, calls, tokenizers=written, dtype="float32", device=device)


def _call(module: torch.nn.Module, component: str) -> Any:
    inputs, outputs = (
        [spec.name for spec in specs]
        for specs in (SHAPES.inputs(component, Workload()), SHAPES.outputs(component, Workload()))
    )

    def call(given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            return dict(zip(outputs, module(*(given[name] for name in inputs)), strict=True))

    return call


def examine(scenes: Sequence[Scene], images: Images) -> dict[str, Any]:
    """Return the share of images that are right, their mean clearness and what is wrong how often."""
    from pytest_sdperf.checks.semantics.scoring import score

    scores = [score(scene, image) for scene, image in zip(scenes, images, strict=True)]
    return {
        "right": sum(one.right for one in scores) / len(scores),
        "clearness": sum(one.clearness for one in scores) / len(scores),
        "wrong": dict(Counter(attribute for one in scores for attribute in one.wrong)),
    }


def pixels(images: Images) -> Images:
    """Return images as 8-bit pixels."""
    return ((images.clip(-1, 1) + 1) * 127.5).round().astype("uint8")


def write_sheet(images: Images, path: Path) -> None:
    """Write images side by side, ten per row, as a PNG."""
    import numpy as np
    from PIL import Image

    missing = -len(images) % _COLUMNS
    full = np.concatenate([pixels(images), np.zeros((missing, *images.shape[1:]), dtype=np.uint8)])
    rows = full.reshape(-1, _COLUMNS, *images.shape[1:]).transpose(0, 3, 1, 4, 2)
    sheet = rows.reshape(rows.shape[0] * rows.shape[1], -1, 3)
    Image.fromarray(sheet).save(path)
