"""The lowest optimization: what the exporter gives."""

from __future__ import annotations

from pytest_sdperf.core.contracts import Optimization


class Fp32(Optimization):
    """The raw export in float32; nothing is fused, and what the exporter emits is its own affair."""

    name = "fp32"
    position = 10
