"""The lowest rung: what the exporter gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pytest_sdperf.contracts import Optimization

if TYPE_CHECKING:
    import torch


class Fp32(Optimization):
    """The raw export in float32; nothing is fused."""

    name = "fp32"
    position = 10
    title = "Raw FP32 models"

    def expected(self, module: torch.nn.Module) -> Mapping[str, int]:
        """Expect nothing: the exporter decides what it emits."""
        return {}
