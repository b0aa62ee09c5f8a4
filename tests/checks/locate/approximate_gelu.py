"""Plug-ins of `test_locating_runs.py`: a model of few layers, and an engine that computes GELU inexactly.

It does where ONNX Runtime has fused it itself. The fusion is what ONNX Runtime makes of five nodes when it loads a
graph. It cannot where somebody reads a value between them, and then GELU is exact.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tiny_model import WIDTH, TinyModel

from pytest_sdperf import builtins
from pytest_sdperf.cases.registration import registrar_of
from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.contracts import LoadRequest, Runner
from pytest_sdperf.engines import _ort, _ort_memory
from pytest_sdperf.engines.ort_cpu import OrtCpuEngine
from pytest_sdperf.models.shapes import SHAPES

# Whole requests go wrong with one layer of each kind as well.
FEW_LAYERS = {
    "text_encoder": {"num_hidden_layers": 2},
    "unet": {"layers_per_block": 1},
    "vae": {"layers_per_block": 1},
}


class ApproximateEngine(OrtCpuEngine):
    name = "approximate"

    @contextmanager
    def load(self, request: LoadRequest) -> Iterator[Runner]:
        import onnxruntime

        options = _ort.session_options(onnxruntime, request.options)
        options.add_session_config_entry("optimization.enable_gelu_approximation", "1")
        session = _ort.create_session(request, options=options, providers=["CPUExecutionProvider"])
        yield _ort.OrtRunner(session, request, memory=_ort_memory.OrtMemory("cpu"), facts={})


class TinyGelu(TinyModel):
    """One GELU.

    Attributes:
        sums: How many sums stand before it: they decide which of its inner values is among every eighth.
    """

    def __init__(self, name: str, *, sums: int) -> None:
        self.name, self.sums = name, sums

    def config(self, component: str) -> dict[str, Any]:
        return {"width": WIDTH, "sums": self.sums}

    def make(self) -> Any:
        import torch

        sums = self.sums

        class Feed(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.before = torch.nn.Linear(WIDTH, WIDTH)
                self.behind = torch.nn.Linear(WIDTH, WIDTH)

            def forward(self, sample: torch.Tensor, timestep: torch.Tensor) -> tuple[torch.Tensor]:
                x = self.before(sample)
                for number in range(sums):
                    x = x + timestep.to(sample.dtype) * (0.001 + 0.0001 * number)
                return (self.behind(torch.nn.functional.gelu(x)),)

        return Feed()


def pytest_sdperf_register(catalog: Catalog) -> None:
    catalog.add_engine(ApproximateEngine())
    catalog.add_model(SHAPES.variant("few-layers", config=FEW_LAYERS))
    catalog.add_model(TinyGelu("gelu-between", sums=0))
    catalog.add_model(TinyGelu("gelu-hit", sums=1))


def make_catalog() -> Catalog:
    """Everything that this project registers, and what is above."""
    catalog = Catalog()
    for module in (builtins, sys.modules[__name__]):
        with catalog.owned_by(registrar_of(module)):
            module.pytest_sdperf_register(catalog)
    return catalog
