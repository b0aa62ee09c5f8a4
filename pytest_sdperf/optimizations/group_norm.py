"""Group normalization as one node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pytest_sdperf.contracts import Optimization
from pytest_sdperf.structure import norms

if TYPE_CHECKING:
    import torch

    from pytest_sdperf.fusing.fusion import Fusion


class GroupNorm(Optimization):
    """GroupNorm with its activation, and SkipGroupNorm with the addition before it."""

    name = "group-norm"
    position = 50
    title = "FP16 baseline + FMHA + NhwcConv + GroupNorm"
    ort_options = ("enable_group_norm", "enable_skip_group_norm")

    def fusions(self) -> tuple[Fusion, ...]:
        """Return the rewrites: norms with their activations, then sums into these."""
        from pytest_sdperf.optimizations.fusions.group_norm import GroupNorm as Rewrite
        from pytest_sdperf.optimizations.fusions.skip_group_norm import SkipGroupNorm

        return (Rewrite(), SkipGroupNorm())

    def sites(self, module: torch.nn.Module) -> Mapping[str, Sequence[str]]:
        """Expect a node for every norm of an image, also where it is normalised as a sequence (in a VAE)."""
        found = norms.group_norms(module)
        return {
            "com.microsoft::GroupNorm": [norm.path for norm in found if not norm.after_sum],
            "com.microsoft::SkipGroupNorm": [norm.path for norm in found if norm.after_sum],
        }
