"""Group normalization as one node."""

from __future__ import annotations

from collections.abc import Mapping
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

    def expected(self, module: torch.nn.Module) -> Mapping[str, int]:
        """Expect a node for every norm of an image; a norm of a sequence (the attention of a VAE) stays as it is."""
        found = [norm for norm in norms.group_norms(module) if norm.rank == 4]
        counts = {
            "com.microsoft::GroupNorm": sum(not norm.after_sum for norm in found),
            "com.microsoft::SkipGroupNorm": sum(norm.after_sum for norm in found),
        }
        return {op: count for op, count in counts.items() if count}
