"""Fused attention, unpacked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pytest_sdperf.core.contracts import Optimization
from pytest_sdperf.fusing.expected import sites, transposes

if TYPE_CHECKING:
    import torch

    from pytest_sdperf.fusing.fusion import Fusion


class Fmha(Optimization):
    """Fused multi-head attention with separate query, key and value."""

    name = "fmha"
    position = 30
    ort_options = ("enable_attention",)

    def fusions(self) -> tuple[Fusion, ...]:
        """Return the one rewrite."""
        from pytest_sdperf.fusing.optimizations.fusions.attention import Attention

        return (Attention(),)

    def sites(self, module: torch.nn.Module) -> Mapping[str, Sequence[str]]:
        """Expect one per attention, with whatever number of heads."""
        return {"com.microsoft::MultiHeadAttention": sites.attentions(module)}

    def leaves(self, module: torch.nn.Module) -> Mapping[str, int]:
        """Need no transposes within attentions any more."""
        return {"::Transpose": -transposes.round_attentions(module)}
