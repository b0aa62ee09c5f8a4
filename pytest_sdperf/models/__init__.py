"""Stable Diffusion models: one file per family, each with a tuple `MODELS`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_sdperf.core.errors import UnknownNameError

if TYPE_CHECKING:
    from pytest_sdperf.models._stable_diffusion import StableDiffusion


def built_in(name: str) -> StableDiffusion:
    """Return a model of this project, to make one of your own of it (`variant`).

    Raises:
        UnknownNameError: There is none of that name.
    """
    from pytest_sdperf.models import sd15, sd21, sdxl, shapes

    every: tuple[StableDiffusion, ...] = (*sd15.MODELS, *sd21.MODELS, *sdxl.MODELS, *shapes.MODELS)
    known = {model.name: model for model in every}
    if name not in known:
        raise UnknownNameError("model", name, known)
    return known[name]
