"""Packed inputs of attention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pytest_sdperf.contracts import Optimization

if TYPE_CHECKING:
    import torch

    from pytest_sdperf.fusing.fusion import Fusion


class PackedQkv(Optimization):
    """Packed query, key and value of self attention, packed key and value of cross attention."""

    name = "packed-qkv"
    position = 70
    title = "FP16 baseline + FMHA + NhwcConv + GroupNorm + BiasSplitGelu + Packed QKV"
    ort_options = ("enable_packed_qkv", "enable_packed_kv")

    def fusions(self) -> tuple[Fusion, ...]:
        """Return the one rewrite."""
        from pytest_sdperf.optimizations.fusions.packed_qkv import PackedQkv as Rewrite

        return (Rewrite(),)

    def expected(self, module: torch.nn.Module) -> Mapping[str, int]:
        """Expect no further node: the same MultiHeadAttention nodes have 1 or 2 inputs instead of 3."""
        return {}
