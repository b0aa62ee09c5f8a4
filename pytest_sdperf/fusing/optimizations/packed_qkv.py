"""Packed inputs of attention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pytest_sdperf.core.contracts import Optimization
from pytest_sdperf.fusing.expected import sites

if TYPE_CHECKING:
    import torch

    from pytest_sdperf.fusing.fusion import Fusion

ATTENTION = "com.microsoft::MultiHeadAttention"


class PackedQkv(Optimization):
    """Packed query, key and value of self attention, packed key and value of cross attention."""

    name = "packed-qkv"
    position = 70
    ort_options = ("enable_packed_qkv", "enable_packed_kv")
    takes_in = {f"{ATTENTION}[packed-qkv]": ATTENTION, f"{ATTENTION}[packed-kv]": ATTENTION}

    def fusions(self) -> tuple[Fusion, ...]:
        """Return the one rewrite."""
        from pytest_sdperf.fusing.optimizations.fusions.packed_qkv import PackedQkv as Rewrite

        return (Rewrite(),)

    def sites(self, module: torch.nn.Module) -> Mapping[str, Sequence[str]]:
        """Expect the attentions whose projections have no bias: self attention with one input, cross with two."""
        whole, crossed = sites.packable_attentions(module)
        return {f"{ATTENTION}[packed-qkv]": whole, f"{ATTENTION}[packed-kv]": crossed}
