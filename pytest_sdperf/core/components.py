"""Which components a request runs through, and in which precision each of them runs."""

from __future__ import annotations

from pytest_sdperf.core.contracts import Model

PIPELINE = "pipeline"
# Outputs of a request, by name: the decoded images, and the latents after every UNet call.
IMAGE, LATENTS = "image", "step_latents"
BETWEEN = "between"  # what a request does beside the calls of its components
RANGE = "range."  # begins the name of an output that tells how large those of a component were


def needed_components(model: Model) -> tuple[str, ...]:
    """Return the components that a request calls (an encoder of images is not among them)."""
    return tuple(name for name in model.components if name != "vae_encoder")


def parts_of(model: Model, component: str) -> tuple[str, ...]:
    """Return the components that a case consists of: itself, or those that a whole request calls."""
    return needed_components(model) if component == PIPELINE else (component,)


def component_dtype(model: Model, component: str, dtype: str) -> str:
    """Return the dtype of one component of a `dtype` pipeline.

    An autoencoder whose configuration says `force_upcast` overflows in float16 and runs in float32, as in diffusers;
    bfloat16 has the range.
    """
    upcast = component.startswith("vae_") and upcasts(model, component)
    return "float32" if upcast and dtype == "float16" else dtype


def upcasts(model: Model, component: str = "vae_decoder") -> bool:
    """Whether the configuration of an autoencoder says `force_upcast`; a model without one says nothing."""
    return component in model.components and bool(model.config(component).get("force_upcast", False))
