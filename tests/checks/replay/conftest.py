from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path

import pytest
from planted_replays import LOADS, make_catalog

from pytest_sdperf.builds.builder import Builder
from pytest_sdperf.builds.cache import Cache
from pytest_sdperf.builds.execution.run_context import RunContext
from pytest_sdperf.builds.execution.runner import CaseRunner
from pytest_sdperf.core.device import Device
from pytest_sdperf.core.settings import EngineRequest, Settings
from pytest_sdperf.core.values import Case
from pytest_sdperf.devices.cpu import CpuProbe

CASE = Case("shallow", "unet", "healthy", "fp32", height=64, width=64)


@pytest.fixture(scope="session")
def cache_dir(shared_folder) -> Path:
    """Weights and torch's answers, made once for all tests of this folder."""
    return shared_folder("replay-cache")


@pytest.fixture
def case_on(cache_dir, tmp_path):
    """Return what executes a case of a planted engine: inside this process unless told otherwise."""
    LOADS.clear()

    def make(engine: str, *, in_process: bool = True, **fields) -> CaseRunner:
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        settings = Settings(cache_dir=cache_dir, state_dir=folder, in_process=in_process)
        catalog, cache = make_catalog(), Cache(cache_dir, size_bytes=10**10)
        bench = RunContext(
            settings=settings,
            catalog=catalog,
            device=Device("cpu", "a CPU", "cpu"),
            probe=CpuProbe(),
            builder=Builder(catalog, settings, cache, say=lambda text: None),
            cache=cache,
            folder=folder,
            say=lambda text: None,
        )
        return CaseRunner(dataclasses.replace(CASE, engine=engine, **fields), EngineRequest(engine, engine), bench)

    return make
