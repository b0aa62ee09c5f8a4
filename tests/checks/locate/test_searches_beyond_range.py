"""Plain torch overflows itself: the agreement fails, and the search names that place and blames no engine."""

from __future__ import annotations

import sys
from pathlib import Path

import overflowing_models
import pytest

from pytest_sdperf.builds.builder import Builder
from pytest_sdperf.builds.cache import Cache
from pytest_sdperf.builds.execution.run_context import RunContext
from pytest_sdperf.builds.execution.runner import CaseRunner
from pytest_sdperf.cases.registration import registrar_of
from pytest_sdperf.checks.agreement.check import agree
from pytest_sdperf.checks.agreement.locations import sentence
from pytest_sdperf.checks.locate.locate import locate
from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.device import Device
from pytest_sdperf.core.settings import EngineRequest, Settings
from pytest_sdperf.core.values import Case
from pytest_sdperf.devices.cpu import CpuProbe
from pytest_sdperf.engines.ort_cpu import OrtCpuEngine
from pytest_sdperf.engines.torch_eager import TorchEngine
from pytest_sdperf.fusing.optimizations import LADDER

PLACE = (
    "In plain torch itself the vae_decoder goes wrong at {}: not all of its values are finite. The reference has "
    "numbers there, which this dtype cannot hold: of what follows nothing can be called right, whatever the "
    "engine."
)
GRAPH = {"fuser": "native", "exporter": "torchscript", "opset": 18, "shapes": "static"}


def pytest_sdperf_register(catalog: Catalog) -> None:
    catalog.add_engine(TorchEngine())
    catalog.add_engine(OrtCpuEngine())
    for optimization in LADDER:
        catalog.add_optimization(optimization)
    overflowing_models.pytest_sdperf_register(catalog)


@pytest.fixture
def searched(shared_folder, tmp_path):
    """Compare the decoder of a model whose configuration has lost `force_upcast`, and say what was found, and where."""

    def search(engine: str, **fields: str):
        folder = shared_folder("beyond-range-cache")
        settings, catalog = Settings(cache_dir=folder, state_dir=tmp_path, in_process=True), Catalog()
        with catalog.owned_by(registrar_of(sys.modules[__name__])):
            pytest_sdperf_register(catalog)
        cache = Cache(folder, size_bytes=10**9)
        bench = RunContext(
            settings=settings, catalog=catalog, device=Device("cpu", "a CPU", "cpu"), probe=CpuProbe(),
            builder=Builder(catalog, settings, cache, say=lambda text: None), cache=cache, folder=Path(tmp_path),
            say=lambda text: None,
        )  # fmt: skip
        case = Case("loud-vae", "vae_decoder", engine, "fp16", height=64, width=64, **fields)
        runner = CaseRunner(case, EngineRequest(engine, engine), bench)
        (found,) = agree(runner)
        return found, locate(runner, [found], settings=settings)

    return search


def test_an_engine_that_runs_the_module(searched):
    found, located = searched("torch")
    assert (found.passed, found.limit, located.kind) == (False, float("inf"), "plain")
    assert located.location.path.startswith("decoder.")
    assert sentence(located) == PLACE.format(located.location.path)


@pytest.mark.slow
def test_an_engine_that_runs_a_graph_and_stays_finite(searched):
    """ONNX Runtime computes in float32 on a CPU what torch computes in float16."""
    _, of_module = searched("torch")
    found, located = searched("ort-cpu", **GRAPH)
    assert (found.passed, found.limit, located.kind) == (False, float("inf"), "plain")
    assert sentence(located) == PLACE.format(of_module.location.path)
