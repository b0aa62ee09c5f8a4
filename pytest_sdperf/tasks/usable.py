"""Find out whether an interpreter, that of a profile, has what an engine needs."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_sdperf.core.device import DeviceKind
from pytest_sdperf.core.errors import EngineMissingError
from pytest_sdperf.tasks import TaskContext
from pytest_sdperf.tasks._loading import engine_of
from pytest_sdperf.tasks.pipeline import check_packages


@dataclass(frozen=True)
class FindPackages:
    """The packages that one engine needs.

    Attributes:
        engine: Catalog name.
        options: Options that differ from the engine's defaults.
        device_kind: What it is to run on.
        pipeline: Whether it will be part of a whole request.
    """

    engine: str
    options: Mapping[str, str]
    device_kind: DeviceKind
    pipeline: bool = False


def run(request: FindPackages, context: TaskContext) -> dict[str, Any]:
    """Look for packages; none is imported, and there is nothing to answer.

    Raises:
        EngineMissingError: One is missing; the text says which and what to type.
    """
    if importlib.util.find_spec("numpy") is None:
        raise EngineMissingError(
            f"{sys.executable} lacks numpy, which every worker needs; type: {sys.executable} -m pip install numpy"
        )
    engine_of(request.engine, request.options, request.device_kind, context)
    if request.pipeline:
        check_packages(request.device_kind)
    return {}
