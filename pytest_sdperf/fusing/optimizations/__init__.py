"""The optimization ladder: what each of its optimizations makes of a graph, and where, by the module of torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pytest_sdperf.core.contracts import Optimization
from pytest_sdperf.fusing.expected import norms, sites, transposes
from pytest_sdperf.fusing.node_names import SILU

if TYPE_CHECKING:
    import torch

ATTENTION, NORM, SKIP = (f"com.microsoft::{op}" for op in ("MultiHeadAttention", "GroupNorm", "SkipGroupNorm"))


def _rewrites(*names: str) -> tuple[str, ...]:
    return tuple(f"{__name__}.fusions.{name}" for name in names)


class Fp32(Optimization):
    """The raw export in float32; nothing is fused, and what the exporter emits is its own affair."""

    name, position = "fp32", 10


class Fp16(Optimization):
    """float16 conversion with LayerNormalization, SkipLayerNormalization and Gelu: the baseline of published tables."""

    name, position = "fp16", 20
    # Norms, with their residual sums, then activations, at last biases into these.
    rewrites = _rewrites(
        "layer_norm:LayerNormalization", "skip_layer_norm:SkipLayerNormalization", "gelu:Gelu",
        "quick_gelu:QuickGelu", "bias_gelu:BiasGelu",
    )  # fmt: skip
    ort_options = (
        "enable_layer_norm", "enable_skip_layer_norm", "enable_bias_skip_layer_norm", "enable_gelu", "enable_bias_gelu",
    )  # fmt: skip

    def sites(self, module: torch.nn.Module) -> Mapping[str, Sequence[str]]:
        """Expect a SkipLayerNormalization wherever a residual sum is normalised, and every Gelu as one node."""
        found = norms.layer_norms(module)
        return {
            "com.microsoft::SkipLayerNormalization": [norm.path for norm in found if norm.after_sum],
            "::LayerNormalization": [norm.path for norm in found if not norm.after_sum],
            "com.microsoft::Gelu": sites.geglus(module),
            "com.microsoft::QuickGelu": sites.clip_activations(module, "quick_gelu"),
            # The bias of the linear layer before it belongs to the same node.
            "com.microsoft::BiasGelu": sites.clip_activations(module, "gelu"),
        }


class Fmha(Optimization):
    """Fused multi-head attention with separate query, key and value."""

    name, position = "fmha", 30
    rewrites = _rewrites("attention:Attention")
    ort_options = ("enable_attention",)

    def sites(self, module: torch.nn.Module) -> Mapping[str, Sequence[str]]:
        """Expect one per attention, with whatever number of heads."""
        return {ATTENTION: sites.attentions(module)}

    def leaves(self, module: torch.nn.Module) -> Mapping[str, int]:
        """Need no transposes within attentions any more."""
        return {"::Transpose": -transposes.round_attentions(module)}


class NhwcConv(Optimization):
    """Convolution in channels-last layout; transposes between neighbours cancel."""

    name, position = "nhwc-conv", 40
    rewrites = _rewrites("nhwc_conv:NhwcConv")
    ort_options = ("enable_nhwc_conv",)
    replaces = ("::Conv",)

    def sites(self, module: torch.nn.Module) -> Mapping[str, Sequence[str]]:
        """Expect every two-dimensional convolution."""
        return {"com.microsoft::NhwcConv": sites.convolutions(module)}

    def leaves(self, module: torch.nn.Module) -> Mapping[str, int]:
        """Need transposes round what works on channels in second place, and where an image comes in and goes out."""
        return {"::Transpose": transposes.round_convolutions(module)} if sites.convolutions(module) else {}


class GroupNorm(Optimization):
    """GroupNorm with its activation, and SkipGroupNorm with the addition before it."""

    name, position = "group-norm", 50
    # Norms with their activations, then sums into these, and what others left out of them.
    rewrites = _rewrites(
        "group_norm:GroupNorm", "skip_group_norm:SkipGroupNorm", "norm_silu:NormSilu", "norm_silu:SkipNormSilu"
    )
    ort_options = ("enable_group_norm", "enable_skip_group_norm")
    forms = {NORM: (f"{NORM}{SILU}",), SKIP: (f"{SKIP}{SILU}",)}

    def sites(self, module: torch.nn.Module) -> Mapping[str, Sequence[str]]:
        """Expect a node for every norm of an image, also where it is normalised as a sequence (in a VAE)."""
        found: dict[str, list[str]] = {}
        for norm in norms.group_norms(module):
            op = f"{SKIP if norm.after_sum else NORM}{SILU if norm.silu else ''}"
            found.setdefault(op, []).append(norm.path)
        return found

    def leaves(self, module: torch.nn.Module) -> Mapping[str, int]:
        """Need no transposes round norms any more: these take images as the convolutions beside them do."""
        return {"::Transpose": -transposes.round_norms(module)}


class BiasSplitGelu(Optimization):
    """Bias, split and Gelu of a GEGLU as one node."""

    name, position = "bias-split-gelu", 60
    rewrites = _rewrites("bias_split_gelu:BiasSplitGelu")
    ort_options = ("enable_bias_splitgelu",)
    takes_in = {"com.microsoft::BiasSplitGelu": "com.microsoft::Gelu"}

    def sites(self, module: torch.nn.Module) -> Mapping[str, Sequence[str]]:
        """Expect one per GEGLU."""
        return {"com.microsoft::BiasSplitGelu": sites.geglus(module)}


class PackedQkv(Optimization):
    """Packed query, key and value of self attention, packed key and value of cross attention."""

    name, position = "packed-qkv", 70
    rewrites = _rewrites("packed_qkv:PackedQkv")
    ort_options = ("enable_packed_qkv", "enable_packed_kv")
    takes_in = {f"{ATTENTION}[packed-qkv]": ATTENTION, f"{ATTENTION}[packed-kv]": ATTENTION}

    def sites(self, module: torch.nn.Module) -> Mapping[str, Sequence[str]]:
        """Expect the attentions whose projections have no bias: self attention with one input, cross with two."""
        whole, crossed = sites.packable_attentions(module)
        return {f"{ATTENTION}[packed-qkv]": whole, f"{ATTENTION}[packed-kv]": crossed}


class BiasAdd(Optimization):
    """Bias of a feed-forward output and its residual in one node."""

    name, position = "bias-add", 80
    rewrites = _rewrites("bias_add:BiasAdd")
    ort_options = ("enable_bias_add",)

    def sites(self, module: torch.nn.Module) -> Mapping[str, Sequence[str]]:
        """Expect one per stack of transformer blocks: elsewhere the bias goes into SkipLayerNormalization."""
        return {"com.microsoft::BiasAdd": sites.last_feed_forwards(module)}


LADDER: tuple[Optimization, ...] = (
    Fp32(), Fp16(), Fmha(), NhwcConv(), GroupNorm(), BiasSplitGelu(), PackedQkv(), BiasAdd(),
)  # fmt: skip
