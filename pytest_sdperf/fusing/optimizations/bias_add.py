"""Bias and residual in one node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pytest_sdperf.core.contracts import Optimization
from pytest_sdperf.fusing.expected import sites

if TYPE_CHECKING:
    import torch

    from pytest_sdperf.fusing.fusion import Fusion


class BiasAdd(Optimization):
    """Bias of a feed-forward output and its residual."""

    name = "bias-add"
    position = 80
    ort_options = ("enable_bias_add",)

    def fusions(self) -> tuple[Fusion, ...]:
        """Return the one rewrite."""
        from pytest_sdperf.fusing.optimizations.fusions.bias_add import BiasAdd as Rewrite

        return (Rewrite(),)

    def sites(self, module: torch.nn.Module) -> Mapping[str, Sequence[str]]:
        """Expect one per stack of transformer blocks: elsewhere the bias goes into SkipLayerNormalization."""
        return {"com.microsoft::BiasAdd": sites.last_feed_forwards(module)}
