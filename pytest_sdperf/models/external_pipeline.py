"""What stands for a model where the user's own code makes the pipeline."""

from __future__ import annotations

from pytest_sdperf.models._stable_diffusion import StableDiffusion

_STEPS, _CPU_STEPS = 50, 4


def external_model(name: str, *, on_cpu: bool) -> StableDiffusion:
    """Return a model without components of its own; its size and scheduler are found in the pipeline.

    Args:
        name: Of the case.
        on_cpu: Whether it runs on a CPU, where few steps have to do.
    """
    return StableDiffusion(
        name=name,
        parts={},
        scheduler_config={},
        height=0,
        width=0,
        steps=_CPU_STEPS if on_cpu else _STEPS,
        scheduler="",
        thin=on_cpu,
    )
