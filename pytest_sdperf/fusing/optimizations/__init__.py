"""The optimization ladder: one optimization per file."""

from __future__ import annotations

from pytest_sdperf.core.contracts import Optimization
from pytest_sdperf.fusing.optimizations.bias_add import BiasAdd
from pytest_sdperf.fusing.optimizations.bias_split_gelu import BiasSplitGelu
from pytest_sdperf.fusing.optimizations.fmha import Fmha
from pytest_sdperf.fusing.optimizations.fp16 import Fp16
from pytest_sdperf.fusing.optimizations.fp32 import Fp32
from pytest_sdperf.fusing.optimizations.group_norm import GroupNorm
from pytest_sdperf.fusing.optimizations.nhwc_conv import NhwcConv
from pytest_sdperf.fusing.optimizations.packed_qkv import PackedQkv

LADDER: tuple[Optimization, ...] = (
    Fp32(),
    Fp16(),
    Fmha(),
    NhwcConv(),
    GroupNorm(),
    BiasSplitGelu(),
    PackedQkv(),
    BiasAdd(),
)
