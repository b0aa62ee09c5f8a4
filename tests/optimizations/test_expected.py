"""Derived counts against numbers measured on real graphs: exports fused by onnxruntime's optimizer and by hand."""

from __future__ import annotations

import pytest

from pytest_sdperf import ladder
from pytest_sdperf.optimizations import LADDER
from pytest_sdperf.structure import norms, sites

RUNGS = {rung.name: rung for rung in LADDER}

SDXL = {
    "block_out_channels": (16, 32, 64),
    "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
    "up_block_types": ("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
    "transformer_layers_per_block": (1, 2, 10),
    "use_linear_projection": True,
    "norm_num_groups": 8,
}


def _unet(**config):
    import torch
    from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel

    with torch.device("meta"):
        return UNet2DConditionModel(**{"block_out_channels": (16, 32, 64, 64), "norm_num_groups": 8, **config})


def _vae(half):
    import torch
    from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL

    kinds = {"down_block_types": ("DownEncoderBlock2D",) * 4, "up_block_types": ("UpDecoderBlock2D",) * 4}
    with torch.device("meta"):
        vae = AutoencoderKL(block_out_channels=(16, 32, 64, 64), layers_per_block=2, norm_num_groups=8, **kinds)
    return getattr(vae, half)


def _clip(layers, activation):
    import torch
    from transformers import CLIPTextConfig, CLIPTextModel

    config = CLIPTextConfig(
        vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=layers, num_attention_heads=4,
        hidden_act=activation, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    with torch.device("meta"):
        return CLIPTextModel(config)


MODULES = {
    "sd15": _unet,
    "sd21": lambda: _unet(use_linear_projection=True),
    "sdxl": lambda: _unet(**SDXL),
    "vae-decoder": lambda: _vae("decoder"),
    "vae-encoder": lambda: _vae("encoder"),
    "clip-l": lambda: _clip(12, "quick_gelu"),
    "openclip-h": lambda: _clip(23, "gelu"),
}


@pytest.fixture(scope="module")
def modules():
    return {name: make() for name, make in MODULES.items()}


def _counts(*values):
    names = (
        "::LayerNormalization", "SkipLayerNormalization", "Gelu", "QuickGelu", "BiasGelu", "MultiHeadAttention",
        "NhwcConv", "GroupNorm", "SkipGroupNorm", "BiasSplitGelu", "BiasAdd",
    )  # fmt: skip
    ops = (name if "::" in name else f"com.microsoft::{name}" for name in names)
    return dict(zip(ops, values, strict=True))


# Columns as in `_counts`; Gelu is what the fp16 rung forms, before BiasSplitGelu takes it in.
KNOWN = {
    "sd15": _counts(16, 32, 16, 0, 0, 32, 98, 16, 45, 16, 16),
    "sd21": _counts(16, 32, 16, 0, 0, 32, 66, 16, 45, 16, 16),
    "sdxl": _counts(11, 199, 70, 0, 0, 140, 51, 12, 34, 70, 11),
    "vae-decoder": _counts(0, 0, 0, 0, 0, 0, 35, 18, 11, 0, 0),
    "clip-l": _counts(1, 24, 0, 12, 0, 12, 0, 0, 0, 0, 0),
    "openclip-h": _counts(1, 46, 0, 0, 23, 23, 0, 0, 0, 0, 0),
}


@pytest.mark.parametrize("name", KNOWN)
def test_derived_counts_are_the_known_ones(modules, name):
    derived: dict[str, int] = {}
    for rung in LADDER:
        derived.update({op: count for op, count in rung.expected(modules[name]).items() if count > 0})
    assert derived == {op: count for op, count in KNOWN[name].items() if count}


@pytest.mark.parametrize("name", ["sd15", "sdxl"])
def test_bias_split_gelu_takes_in_every_gelu(modules, name):
    rungs = ladder.rungs("bias-add", tuple(RUNGS))
    assert sum(RUNGS[rung].expected(modules[name]).get("com.microsoft::Gelu", 0) for rung in rungs) == 0


def test_no_convolution_is_left_after_nhwc_conv(modules):
    assert RUNGS["nhwc-conv"].expected(modules["sd15"])["::Conv"] == 0


def test_the_attention_of_a_vae_normalises_a_sequence(modules):
    found = norms.group_norms(modules["vae-decoder"])
    assert len(found) == 30
    assert [norm.path for norm in found if norm.rank == 3] == ["mid_block.attentions.0.group_norm"]


@pytest.mark.parametrize("name", ["sd15", "sdxl", "vae-decoder", "vae-encoder"])
def test_every_group_norm_is_found_once(modules, name):
    paths = [norm.path for norm in norms.group_norms(modules[name])]
    assert sorted(paths) == sorted(path for path, _ in sites.modules_of(modules[name], "GroupNorm"))


@pytest.mark.parametrize("name", ["sd15", "sdxl", "clip-l"])
def test_every_layer_norm_is_found_once(modules, name):
    paths = [norm.path for norm in norms.layer_norms(modules[name])]
    assert sorted(paths) == sorted(path for path, _ in sites.modules_of(modules[name], "LayerNorm"))


def test_layers_that_no_output_needs_are_not_counted():
    import torch

    class Penultimate(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.text_encoder = _clip(3, "quick_gelu")

        def forward(self, ids):
            return (self.text_encoder(input_ids=ids, output_hidden_states=True).hidden_states[-2],)

    module = Penultimate().eval()
    sites.remove_unused(module, [torch.empty((1, 77), dtype=torch.int64, device="meta")])
    assert RUNGS["fp16"].expected(module) == {
        "com.microsoft::SkipLayerNormalization": 3,
        "::LayerNormalization": 1,
        "com.microsoft::QuickGelu": 2,
    }


@pytest.mark.parametrize("rung", LADDER, ids=lambda rung: rung.name)
def test_fusion_options_of_a_rung_exist_in_onnxruntime(rung):
    from onnxruntime.transformers.fusion_options import FusionOptions

    assert set(rung.ort_options) <= set(vars(FusionOptions("unet")))
