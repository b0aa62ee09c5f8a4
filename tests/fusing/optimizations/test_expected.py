"""Derived counts against numbers measured on real graphs: exports fused by onnxruntime's optimizer and by hand."""

from __future__ import annotations

import pytest

from pytest_sdperf.builds.expectations import total_counts, total_sites
from pytest_sdperf.core import ladder
from pytest_sdperf.core.contracts import Optimization
from pytest_sdperf.fusing.expected import norms, sites
from pytest_sdperf.fusing.optimizations import LADDER
from pytest_sdperf.models.shapes import SHAPES

OPTIMIZATIONS = {optimization.name: optimization for optimization in LADDER}

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
    "shapes": lambda: SHAPES.module("unet", weights=None),
}


@pytest.fixture(scope="module")
def modules():
    return {name: make() for name, make in MODULES.items()}


NAMES = (
    "::LayerNormalization", "SkipLayerNormalization", "Gelu", "QuickGelu", "BiasGelu", "MultiHeadAttention",
    "MultiHeadAttention[packed-qkv]", "MultiHeadAttention[packed-kv]", "NhwcConv", "GroupNorm[silu]", "SkipGroupNorm",
    "SkipGroupNorm[silu]", "BiasSplitGelu", "BiasAdd",
)  # fmt: skip
OPS = tuple(name if "::" in name else f"com.microsoft::{name}" for name in NAMES)

# Columns as in `NAMES`; Gelu is what the fp16 optimization forms, before BiasSplitGelu takes it in, and
# MultiHeadAttention what fmha forms, before it is packed. The VAEs stand without the convolution outside of decoder and
# encoder.
KNOWN = {
    "sd15": (16, 32, 16, 0, 0, 32, 16, 16, 98, 16, 16, 29, 16, 16),
    "sd21": (16, 32, 16, 0, 0, 32, 16, 16, 66, 16, 16, 29, 16, 16),
    "sdxl": (11, 199, 70, 0, 0, 140, 70, 70, 51, 12, 11, 23, 70, 11),
    "vae-decoder": (0, 0, 0, 0, 0, 1, 0, 0, 35, 18, 1, 11, 0, 0),
    "vae-encoder": (0, 0, 0, 0, 0, 1, 0, 0, 27, 14, 1, 7, 0, 0),
    "clip-l": (1, 24, 0, 12, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0),
    "openclip-h": (1, 46, 0, 0, 23, 23, 0, 0, 0, 0, 0, 0, 0, 0),
    "shapes": (16, 32, 16, 0, 0, 32, 16, 16, 98, 16, 16, 29, 16, 16),  # as sd15
}
SELECTIONS = (*OPTIMIZATIONS, *(f"all-{name}" for name in OPTIMIZATIONS), "fp16+packed-qkv", "bias-split-gelu+bias-add")


@pytest.mark.parametrize("name", KNOWN)
def test_derived_counts_are_the_known_ones(modules, name):
    derived: dict[str, int] = {}
    for optimization in LADDER:
        derived.update({op: count for op, count in optimization.expected(modules[name]).items() if count > 0})
    assert derived == {op: count for op, count in zip(OPS, KNOWN[name], strict=True) if count}


def _totals(module, selection):
    optimizations = [OPTIMIZATIONS[name] for name in ladder.optimizations(selection, tuple(OPTIMIZATIONS))]
    counts = total_counts([(optimization.expected(module), optimization.takes_in) for optimization in optimizations])
    return counts, total_sites([(optimization.sites(module), optimization.takes_in) for optimization in optimizations])


@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("name", KNOWN)
def test_there_are_as_many_sites_as_nodes_in_every_selection(modules, name, selection):
    counts, found = _totals(modules[name], selection)
    assert {op: len(paths) for op, paths in found.items()} == {op: count for op, count in counts.items() if count}
    paths = dict(modules[name].named_modules())
    for op, places in found.items():
        assert len(set(places)) == len(places), op
        assert set(places) <= set(paths), op


def test_the_packed_forms_take_in_the_plain_attention(modules):
    counts, found = _totals(modules["sd15"], "packed-qkv")
    assert counts["com.microsoft::MultiHeadAttention"] == 0
    assert "com.microsoft::MultiHeadAttention" not in found
    assert found["com.microsoft::MultiHeadAttention[packed-qkv]"][0] == (
        "down_blocks.0.attentions.0.transformer_blocks.0.attn1"
    )
    assert found["com.microsoft::MultiHeadAttention[packed-kv]"][-1] == (
        "mid_block.attentions.0.transformer_blocks.0.attn2"
    )


def test_without_attention_there_is_nothing_to_pack(modules):
    counts, found = _totals(modules["sd15"], "all-fmha")
    assert {op.rpartition("::")[2]: count for op, count in counts.items() if "Attention" in op} == {
        "MultiHeadAttention": 0, "MultiHeadAttention[packed-qkv]": 0, "MultiHeadAttention[packed-kv]": 0
    }  # fmt: skip
    assert not [op for op in found if "Attention" in op]


def test_without_gelu_the_bias_split_gelu_is_expected_all_the_same(modules):
    assert _totals(modules["sd15"], "all-fp16")[0]["com.microsoft::BiasSplitGelu"] == 16


def test_sites_stand_in_the_order_of_the_ladder(modules):
    assert [op.rpartition("::")[2] for op in _totals(modules["sd15"], "bias-add")[1]] == [
        "LayerNormalization", "SkipLayerNormalization", "MultiHeadAttention[packed-kv]",
        "MultiHeadAttention[packed-qkv]", "NhwcConv", "GroupNorm[silu]", "SkipGroupNorm", "SkipGroupNorm[silu]",
        "BiasSplitGelu", "BiasAdd",
    ]  # fmt: skip


def _block(**config):
    import torch
    from diffusers.models.attention import BasicTransformerBlock

    with torch.device("meta"):
        return BasicTransformerBlock(16, 2, 8, cross_attention_dim=32, **config)


def test_projections_with_a_bias_stay_apart(modules):
    assert sites.packable_attentions(modules["vae-decoder"]) == ([], [])
    assert sites.packable_attentions(_block()) == (["attn1"], ["attn2"])
    assert sites.packable_attentions(_block(attention_bias=True)) == ([], [])
    assert sites.packable_attentions(_block(only_cross_attention=True)) == ([], ["attn1", "attn2"])
    assert sites.packable_attentions(_block(double_self_attention=True)) == (["attn1", "attn2"], [])


class Older(Optimization):
    """An optimization that somebody wrote before there were sites."""

    name, position = "older", 1

    def expected(self, module):
        return {"acme::Op": 3}


def test_a_optimization_that_counts_for_itself_has_no_sites():
    assert (Older().expected(None), Older().sites(None)) == ({"acme::Op": 3}, {})


@pytest.mark.parametrize("name", ["sd15", "sdxl"])
def test_bias_split_gelu_takes_in_every_gelu(modules, name):
    optimizations = ladder.optimizations("bias-add", tuple(OPTIMIZATIONS))
    assert (
        sum(
            OPTIMIZATIONS[optimization].expected(modules[name]).get("com.microsoft::Gelu", 0)
            for optimization in optimizations
        )
        == 0
    )


def test_no_convolution_is_left_after_nhwc_conv(modules):
    assert OPTIMIZATIONS["nhwc-conv"].expected(modules["sd15"])["::Conv"] == 0


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
    assert OPTIMIZATIONS["fp16"].expected(module) == {
        "com.microsoft::SkipLayerNormalization": 3,
        "::LayerNormalization": 1,
        "com.microsoft::QuickGelu": 2,
    }


@pytest.mark.parametrize("optimization", LADDER, ids=lambda optimization: optimization.name)
def test_fusion_options_of_a_optimization_exist_in_onnxruntime(optimization):
    from onnxruntime.transformers.fusion_options import FusionOptions

    assert set(optimization.ort_options) <= set(vars(FusionOptions("unet")))
