"""Every model that the suite ships, and weights for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pytest_sdperf.core.values import Workload
from pytest_sdperf.models import sd15, sd21, sdxl, shapes
from pytest_sdperf.models._stable_diffusion import StableDiffusion

MODELS = {model.name: model for family in (sd15, sd21, sdxl, shapes) for model in family.MODELS}
THIN = tuple(name for name, model in MODELS.items() if model.thin)


def draw_all(model: StableDiffusion, folder: Path) -> dict[str, Path]:
    paths = {component: folder / f"{component}.safetensors" for component in model.components}
    for component, path in paths.items():
        model.draw_weights(component, path)
    return paths


def call_inputs(model: StableDiffusion, component: str, workload: Workload, *, dtype: str) -> list[Any]:
    import torch

    arrays = model.example(component, workload)
    return [
        torch.from_numpy(arrays[spec.name]).to(getattr(torch, dtype if spec.dtype == "float" else spec.dtype))
        for spec in model.inputs(component, workload)
    ]
