"""The short names of the fixtures, for tests that want them: `bench` is `sdperf_bench`.

One line in the `conftest.py` of a folder brings them to its tests, and to no others::

    from pytest_sdperf.short_fixtures import *

Naming them (`import bench, runner`) brings those alone. Nothing loads this module by itself: names as common as these
may be somebody else's.

PYTEST_DONT_REWRITE: it asserts nothing that a user should see, and may be imported before pytest loads it.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_sdperf.builds.execution.runner import CaseRunner
    from pytest_sdperf.checks.equivalence.check import Link
    from pytest_sdperf.checks.fusions.target import Operators
    from pytest_sdperf.checks.semantics.finding import Semantics
    from pytest_sdperf.core.contracts import Engine, Model
    from pytest_sdperf.core.device import Device
    from pytest_sdperf.core.values import Build, Case, Measurement
    from pytest_sdperf.core.values.outcomes import Agreement
    from pytest_sdperf.core.values.replays import Replay

# A worker under another interpreter, which may have no pytest, loads the conftest.py whose engine it runs.
if TYPE_CHECKING or importlib.util.find_spec("pytest"):
    import pytest
else:
    pytest = SimpleNamespace(fixture=lambda *_, **__: lambda function: function)

__all__ = [
    "agree",
    "bench",
    "build",
    "case",
    "device",
    "drift",
    "engine",
    "equivalent",
    "expected_counts",
    "fused",
    "model",
    "pictures",
    "replay",
    "runner",
]


@pytest.fixture
def agree(sdperf_agree: Callable[[CaseRunner], Any]) -> Callable[[CaseRunner], Any]:
    """Short for `sdperf_agree`: compare the case with torch."""
    return sdperf_agree


@pytest.fixture
def bench(sdperf_bench: Callable[[CaseRunner], Measurement]) -> Callable[[CaseRunner], Measurement]:
    """Short for `sdperf_bench`: measure the case and judge it."""
    return sdperf_bench


@pytest.fixture(scope="session")
def build(sdperf_build: Build) -> Build:
    """Short for `sdperf_build`: the optimized build of the case's component."""
    return sdperf_build


@pytest.fixture(scope="session")
def case(sdperf_case: Case) -> Case:
    """Short for `sdperf_case`: the identity of what this test is about."""
    return sdperf_case


@pytest.fixture(scope="session")
def device(sdperf_device: Device) -> Device:
    """Short for `sdperf_device`: the device under test."""
    return sdperf_device


@pytest.fixture
def drift(sdperf_drift: Callable[..., Agreement | None]) -> Callable[..., Agreement | None]:
    """Short for `sdperf_drift`: compare half precision with single precision."""
    return sdperf_drift


@pytest.fixture(scope="session")
def engine(sdperf_engine: Engine) -> Engine:
    """Short for `sdperf_engine`: the engine of the case."""
    return sdperf_engine


@pytest.fixture
def equivalent(
    sdperf_equivalent: Callable[[Build], tuple[Link, ...] | None],
) -> Callable[[Build], tuple[Link, ...] | None]:
    """Short for `sdperf_equivalent`: compare a build with its torch module in float64."""
    return sdperf_equivalent


@pytest.fixture(scope="session")
def expected_counts(sdperf_expected_counts: Mapping[str, int]) -> Mapping[str, int]:
    """Short for `sdperf_expected_counts`: the operators that the torch module allows."""
    return sdperf_expected_counts


@pytest.fixture
def fused(
    sdperf_fused: Callable[[Build, Mapping[str, int]], Operators | None],
) -> Callable[[Build, Mapping[str, int]], Operators | None]:
    """Short for `sdperf_fused`: judge the fused operators of a build."""
    return sdperf_fused


@pytest.fixture(scope="session")
def model(sdperf_model: Model) -> Model:
    """Short for `sdperf_model`: the model of the case."""
    return sdperf_model


@pytest.fixture
def pictures(sdperf_pictures: Callable[[CaseRunner], Semantics | None]) -> Callable[[CaseRunner], Semantics | None]:
    """Short for `sdperf_pictures`: draw fixed prompts and read the images."""
    return sdperf_pictures


@pytest.fixture
def replay(sdperf_replay: Callable[..., Replay | None]) -> Callable[..., Replay | None]:
    """Short for `sdperf_replay`: call the loaded case again and again."""
    return sdperf_replay


@pytest.fixture(scope="session")
def runner(sdperf_runner: CaseRunner) -> CaseRunner:
    """Short for `sdperf_runner`: the case, ready to be executed."""
    return sdperf_runner
