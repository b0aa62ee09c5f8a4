"""Find out whether an interpreter, that of a profile, has what an engine needs."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from typing import Any

from pytest_sdperf.core.errors import EngineMissingError
from pytest_sdperf.tasks import TaskContext
from pytest_sdperf.tasks._loading import usable_engine
from pytest_sdperf.tasks.pipeline import check_packages


def run(arguments: Mapping[str, Any], context: TaskContext) -> dict[str, Any]:
    """Look for packages; none is imported.

    Args:
        arguments: `engine`; `options`; `device_kind`; `pipeline`: whether it will be part of a whole request.
        context: The task's context.

    Raises:
        EngineMissingError: One is missing; the text says which and what to type.
    """
    if importlib.util.find_spec("numpy") is None:
        raise EngineMissingError(
            f"{sys.executable} lacks numpy, which every worker needs; type: {sys.executable} -m pip install numpy"
        )
    usable_engine(arguments, arguments, context)
    if arguments["pipeline"]:
        check_packages(arguments["device_kind"])
    return {}
