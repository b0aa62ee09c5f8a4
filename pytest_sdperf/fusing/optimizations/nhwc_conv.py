"""Convolution in channels-last layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pytest_sdperf.core.contracts import Optimization
from pytest_sdperf.fusing.expected import sites, transposes

if TYPE_CHECKING:
    import torch

    from pytest_sdperf.fusing.fusion import Fusion


class NhwcConv(Optimization):
    """Channels-last convolution; transposes between neighbours cancel."""

    name = "nhwc-conv"
    position = 40
    ort_options = ("enable_nhwc_conv",)
    replaces = ("::Conv",)

    def fusions(self) -> tuple[Fusion, ...]:
        """Return the one rewrite."""
        from pytest_sdperf.fusing.optimizations.fusions.nhwc_conv import NhwcConv as Rewrite

        return (Rewrite(),)

    def sites(self, module: torch.nn.Module) -> Mapping[str, Sequence[str]]:
        """Expect every two-dimensional convolution."""
        return {"com.microsoft::NhwcConv": sites.convolutions(module)}

    def leaves(self, module: torch.nn.Module) -> Mapping[str, int]:
        """Need transposes round what works on channels in second place, and where an image comes in and goes out."""
        return {"::Transpose": transposes.round_convolutions(module)} if sites.convolutions(module) else {}
