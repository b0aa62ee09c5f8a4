"""Trained modules -> a diffusers folder in float16, and back again."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from diffusers import AutoencoderKL, UNet2DConditionModel
from diffusers import __version__ as diffusers_version
from safetensors.torch import load_file, save_file
from transformers import CLIPTextConfig, CLIPTextModel

from pytest_sdperf.core.schedulers import make_scheduler
from pytest_sdperf.models._components import TextEncoder
from pytest_sdperf.models.shapes import SHAPES

_FILES = {
    "text_encoder": "text_encoder/model.safetensors",
    "unet": "unet/diffusion_pytorch_model.safetensors",
    "vae": "vae/diffusion_pytorch_model.safetensors",
}


@dataclass(frozen=True)
class Modules:
    """What is trained."""

    text_encoder: CLIPTextModel
    unet: UNet2DConditionModel
    vae: AutoencoderKL

    @classmethod
    def new(cls, device: torch.device | str) -> Modules:
        """Build them with torch's own random weights."""
        return cls(
            CLIPTextModel(CLIPTextConfig(**SHAPES.config("text_encoder"))).to(device).train(),
            UNet2DConditionModel(**SHAPES.config("unet")).to(device).train(),
            AutoencoderKL(**SHAPES.config("vae_decoder")).to(device).train(),
        )

    def named(self) -> dict[str, torch.nn.Module]:
        """Return them by the names of their folders."""
        return {"text_encoder": self.text_encoder, "unet": self.unet, "vae": self.vae}


def write_folder(modules: Modules, folder: Path) -> None:
    """Write a folder that `StableDiffusionPipeline.from_pretrained` loads; a file appears whole or not at all."""
    SHAPES.write_tokenizers(folder, weights=None)
    for name, module in modules.named().items():
        path = folder / _FILES[name]
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        save_file(_stored(name, module), partial, metadata={"format": "pt"})
        partial.chmod(0o644)  # safetensors writes for the owner alone
        partial.replace(path)
    modules.unet.save_config(folder / "unet")
    modules.vae.save_config(folder / "vae")
    modules.text_encoder.config.save_pretrained(folder / "text_encoder")
    make_scheduler(SHAPES.scheduler, SHAPES.config("scheduler")).save_config(folder / "scheduler")
    (folder / "model_index.json").write_text(json.dumps(_index(), indent=2) + "\n", encoding="utf-8")


def read_folder(modules: Modules, folder: Path) -> None:
    """Put the weights of a folder into modules."""
    for name, module in modules.named().items():
        stored = load_file(folder / _FILES[name])
        state = {own: stored[_stored_name(name, own)].float() for own in module.state_dict()}
        module.load_state_dict(state)


def _stored(name: str, module: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {
        _stored_name(name, own): tensor.detach().to("cpu", torch.float16).contiguous()
        for own, tensor in module.state_dict().items()
    }


def _stored_name(folder: str, parameter: str) -> str:
    return TextEncoder({}).stored_name(parameter) if folder == "text_encoder" else parameter


def _index() -> dict[str, object]:
    return {
        "_class_name": "StableDiffusionPipeline",
        "_diffusers_version": diffusers_version,
        "feature_extractor": [None, None],
        "image_encoder": [None, None],
        "requires_safety_checker": False,
        "safety_checker": [None, None],
        "scheduler": ["diffusers", "DDIMScheduler"],
        "text_encoder": ["transformers", "CLIPTextModel"],
        "tokenizer": ["transformers", "CLIPTokenizer"],
        "unet": ["diffusers", "UNet2DConditionModel"],
        "vae": ["diffusers", "AutoencoderKL"],
    }
