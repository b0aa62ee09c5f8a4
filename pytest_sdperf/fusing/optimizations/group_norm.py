"""Group normalization as one node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pytest_sdperf.core.contracts import Optimization
from pytest_sdperf.fusing.expected import norms, transposes
from pytest_sdperf.fusing.node_names import SILU

if TYPE_CHECKING:
    import torch

    from pytest_sdperf.fusing.fusion import Fusion


NORM, SKIP = "com.microsoft::GroupNorm", "com.microsoft::SkipGroupNorm"


class GroupNorm(Optimization):
    """GroupNorm with its activation, and SkipGroupNorm with the addition before it."""

    name = "group-norm"
    position = 50
    ort_options = ("enable_group_norm", "enable_skip_group_norm")
    forms = {NORM: (f"{NORM}{SILU}",), SKIP: (f"{SKIP}{SILU}",)}

    def fusions(self) -> tuple[Fusion, ...]:
        """Return the rewrites: norms with their activations, then sums into these, and what others left out of them."""
        from pytest_sdperf.fusing.optimizations.fusions.group_norm import GroupNorm as Rewrite
        from pytest_sdperf.fusing.optimizations.fusions.norm_silu import NormSilu
        from pytest_sdperf.fusing.optimizations.fusions.skip_group_norm import SkipGroupNorm

        return (Rewrite(), SkipGroupNorm(), NormSilu("GroupNorm"), NormSilu("SkipGroupNorm"))

    def sites(self, module: torch.nn.Module) -> Mapping[str, Sequence[str]]:
        """Expect a node for every norm of an image, also where it is normalised as a sequence (in a VAE)."""
        found: dict[str, list[str]] = {}
        for norm in norms.group_norms(module):
            op = f"{SKIP if norm.after_sum else NORM}{SILU if norm.silu else ''}"
            found.setdefault(op, []).append(norm.path)
        return found

    def leaves(self, module: torch.nn.Module) -> Mapping[str, int]:
        """Need no transposes round norms any more: these take images as the convolutions beside them do."""
        return {"::Transpose": -transposes.round_norms(module)}
