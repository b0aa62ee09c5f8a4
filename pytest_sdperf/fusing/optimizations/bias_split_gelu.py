"""Bias, split and Gelu of a GEGLU as one node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pytest_sdperf.core.contracts import Optimization
from pytest_sdperf.fusing.expected import sites

if TYPE_CHECKING:
    import torch

    from pytest_sdperf.fusing.fusion import Fusion


class BiasSplitGelu(Optimization):
    """GEGLU with the bias of its linear layer."""

    name = "bias-split-gelu"
    position = 60
    ort_options = ("enable_bias_splitgelu",)
    takes_in = {"com.microsoft::BiasSplitGelu": "com.microsoft::Gelu"}

    def fusions(self) -> tuple[Fusion, ...]:
        """Return the one rewrite."""
        from pytest_sdperf.fusing.optimizations.fusions.bias_split_gelu import BiasSplitGelu as Rewrite

        return (Rewrite(),)

    def sites(self, module: torch.nn.Module) -> Mapping[str, Sequence[str]]:
        """Expect one per GEGLU."""
        return {"com.microsoft::BiasSplitGelu": sites.geglus(module)}
