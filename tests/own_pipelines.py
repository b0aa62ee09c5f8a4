"""Diffusers pipelines with thin, shallow models and drawn weights, as somebody else would have them on a disk.

Whatever such a pipeline does is the same with one layer of each kind, and takes a fraction of the time.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pytest_sdperf.core.schedulers import make_scheduler
from pytest_sdperf.models import sd15, sdxl

MODELS = {model.name: model for family in (sd15, sdxl) for model in family.MODELS}
SHALLOW = {
    "text_encoder": {"num_hidden_layers": 2},
    "text_encoder_2": {"num_hidden_layers": 2},
    "unet": {"layers_per_block": 1},
    "vae": {"layers_per_block": 1},
}


def write_pipeline(folder: Path, name: str = "sd15-thin", factor: Callable[[str], float] = lambda _: 1.0) -> Path:
    """Write a shallow twin of a model as a folder that `from_pretrained` reads.

    Args:
        folder: The folder.
        name: Of the model.
        factor: Released name of a parameter of the VAE -> what it is multiplied by.
    """
    import diffusers
    from transformers import CLIPTokenizer

    model = MODELS[name]
    config = {component: changes for component, changes in SHALLOW.items() if component in (*model.parts, "vae")}
    if name.startswith("sdxl"):
        config["unet"] = {**config["unet"], "transformer_layers_per_block": [1, 1, 2]}
    model = model.variant(name, config=config)
    drawn = folder.with_name(f"{folder.name}-drawn")
    drawn.mkdir(parents=True)
    modules: dict[str, Any] = {}
    for component in model.components:
        model.draw_weights(component, drawn / f"{component}.safetensors")
        modules[component] = model.module(component, weights=drawn / f"{component}.safetensors")
    vae = diffusers.AutoencoderKL(**model.config("vae_decoder"))
    drawn_vae = {**modules["vae_decoder"].state_dict(), **modules["vae_encoder"].state_dict()}
    vae.load_state_dict({key: tensor * factor(key) for key, tensor in drawn_vae.items()})
    parts: dict[str, Any] = {"unet": modules["unet"].unet, "vae": vae}
    model.write_tokenizers(drawn, weights=None)
    for encoder in (part for part in model.components if part.startswith("text_encoder")):
        parts[encoder] = modules[encoder].text_encoder
        tokenizer = encoder.replace("text_encoder", "tokenizer")
        parts[tokenizer] = CLIPTokenizer.from_pretrained(str(drawn / tokenizer))
    parts["scheduler"] = make_scheduler(model.scheduler, model.config("scheduler"))
    if name.startswith("sdxl"):
        pipeline = diffusers.StableDiffusionXLPipeline(**parts, add_watermarker=False)
    else:
        pipeline = diffusers.StableDiffusionPipeline(
            **parts, safety_checker=None, feature_extractor=None, requires_safety_checker=False
        )
    pipeline.save_pretrained(folder)
    return folder
