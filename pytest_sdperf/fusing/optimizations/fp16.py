"""The baseline of the published tables: float16 with the fusions of LayerNormalization and Gelu."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pytest_sdperf.core.contracts import Optimization
from pytest_sdperf.fusing.expected import norms, sites

if TYPE_CHECKING:
    import torch

    from pytest_sdperf.fusing.fusion import Fusion


class Fp16(Optimization):
    """float16 conversion, LayerNormalization, SkipLayerNormalization and the forms of Gelu."""

    name = "fp16"
    position = 20
    ort_options = (
        "enable_layer_norm",
        "enable_skip_layer_norm",
        "enable_bias_skip_layer_norm",
        "enable_gelu",
        "enable_bias_gelu",
    )

    def fusions(self) -> tuple[Fusion, ...]:
        """Return the rewrites: norms, with their residual sums, then activations, at last biases into these."""
        from pytest_sdperf.fusing.optimizations.fusions.bias_gelu import BiasGelu
        from pytest_sdperf.fusing.optimizations.fusions.gelu import Gelu
        from pytest_sdperf.fusing.optimizations.fusions.layer_norm import LayerNormalization
        from pytest_sdperf.fusing.optimizations.fusions.quick_gelu import QuickGelu
        from pytest_sdperf.fusing.optimizations.fusions.skip_layer_norm import SkipLayerNormalization

        return (LayerNormalization(), SkipLayerNormalization(), Gelu(), QuickGelu(), BiasGelu())

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
