"""Plug-ins of `test_graph_reference.py`: an ONNX Runtime whose optimizer makes a graph wrong, and tiny text encoders.

One of the encoders is hit by that, as a model is by a rewriting rule with a bug.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tiny_model import TinyModel

from pytest_sdperf.cases.registration import registrar_of
from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.contracts import LoadRequest, Runner
from pytest_sdperf.engines.ort_cpu import OrtCpuEngine
from pytest_sdperf.faults import builtins, known
from pytest_sdperf.fusing.optimizations import LADDER

HIT = "tiny-hit"


class WrongOptimizer(OrtCpuEngine):
    """With every optimization on it makes the graph of one model 1 % too large."""

    @contextmanager
    def load(self, request: LoadRequest) -> Iterator[Runner]:
        with super().load(request) as runner:
            hit = request.model.name == HIT and request.options["graph_optimizations"] == "all"
            yield known.get("numerics-one-percent-high").change(runner) if hit else runner


class TinyText(TinyModel):
    components = ("text_encoder",)

    def __init__(self, name: str) -> None:
        self.name = name


def pytest_sdperf_register(catalog: Catalog) -> None:
    catalog.add_engine(WrongOptimizer())
    for name in ("tiny-text", HIT):
        catalog.add_model(TinyText(name))
    for optimization in LADDER:
        catalog.add_optimization(optimization)


def make_catalog() -> Catalog:
    catalog = Catalog()
    with catalog.owned_by(registrar_of(sys.modules[__name__])):
        pytest_sdperf_register(catalog)
    with catalog.owned_by(registrar_of(builtins)):
        builtins.pytest_sdperf_register(catalog)
    return catalog
