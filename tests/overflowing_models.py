"""Thin models whose weights go beyond float16 where released ones do, and engines that are deaf to what helps."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path

from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.contracts import LoadRequest, Runner
from pytest_sdperf.engines.torch_eager import TorchEngine
from pytest_sdperf.models import sd21
from pytest_sdperf.models._components import UNet, vae_halves
from pytest_sdperf.models._stable_diffusion import StableDiffusion

# One cross-attention, whose products of query and key grow from step to step. With this factor on both, those of the
# third of four steps at 64 pixels are the first ones beyond 65504, as some of SD2.1's are.
ATTENTION = "up_blocks.1.attentions.1.transformer_blocks.0.attn2"
FACTOR = 125.6
# So large products leave one weight of the softmax, and rounding decides which: little of that shall be seen.
QUIET = 2.0**-8
# Activations of the residual stream grow by this, and the last norm takes it away again: as in the VAE of SDXL.
STREAM = 2.0**14


@dataclasses.dataclass(frozen=True)
class Loud(StableDiffusion):
    """SD2.1's thin twin with loud attention and a loud VAE: right where its configuration says that both are upcast."""

    def draw_weights(self, component: str, path: Path, *, seed: int = 0) -> None:
        from safetensors.torch import load_file, save_file

        super().draw_weights(component, path, seed=seed)
        save_file({name: tensor * factor_of(name) for name, tensor in load_file(path).items()}, path)


def factor_of(name: str) -> float:
    """Return what a parameter is multiplied by."""
    if name.startswith(ATTENTION):
        return FACTOR if "to_q" in name or "to_k" in name else QUIET if "to_out" in name else 1.0
    if not name.startswith("decoder.") or name.startswith("decoder.conv_out"):
        return 1.0
    # What enters the residual stream; what is linear in it enters by its bias alone.
    linear = "upsamplers" in name or "conv_shortcut" in name
    enters = name.startswith("decoder.conv_in") or ".conv2." in name or ".to_out." in name
    return STREAM if enters or (linear and name.endswith("bias")) else 1.0


def models() -> Iterator[Loud]:
    (thin,) = (model for model in sd21.MODELS if model.name == "sd21-thin")
    for name, attention, decoder in (("loud", True, True), ("loud-attention", False, True), ("loud-vae", True, False)):
        parts = {
            **thin.parts,
            "unet": UNet({**thin.config("unet"), "upcast_attention": attention}),
            **vae_halves({**thin.config("vae_decoder"), "force_upcast": decoder}),
        }
        given = {field.name: getattr(thin, field.name) for field in dataclasses.fields(thin)}
        yield Loud(**{**given, "name": name, "parts": parts})


class UnfusedEngine(TorchEngine):
    """torch with the attention of old, whose products are kept in the type of the module unless they are upcast."""

    name = "torch-unfused"
    aliases = {}

    @contextlib.contextmanager
    def load(self, request: LoadRequest) -> Iterator[Runner]:
        from diffusers.models.attention_processor import AttnProcessor

        with super().load(request) as runner:
            if request.component == "unet":
                runner._module.unet.set_attn_processor(AttnProcessor())
            yield runner


class HalfEngine(TorchEngine):
    """Runs every module in float16, whatever its build says: what `pipeline.to(torch.float16)` does to a VAE."""

    name = "torch-half"
    aliases = {}

    @contextlib.contextmanager
    def load(self, request: LoadRequest) -> Iterator[Runner]:
        build = dataclasses.replace(request.build, dtype="float16")
        with super().load(dataclasses.replace(request, build=build)) as runner:
            yield runner


def pytest_sdperf_register(catalog: Catalog) -> None:
    for model in models():
        catalog.add_model(model)
    catalog.add_engine(UnfusedEngine())
    catalog.add_engine(HalfEngine())
