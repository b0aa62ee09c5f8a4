"""A plugin of the runs that tests start: what only takes time where several of them share a machine is left out.

The device is calibrated once for all of them, no process is measured again because something ran beside it, and those
that are measured are forked as all others are: `tox -e suites` starts them as a user's run does.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# A folder that all processes share.
VARIABLE = "SDPERF_TEST_CALIBRATIONS"


@pytest.hookimpl(wrapper=True)
def pytest_cmdline_main() -> Iterator[None]:
    from pytest_sdperf.builds.processes import process  # not before pytest has looked at its modules
    from pytest_sdperf.checks.pipelines import measure
    from pytest_sdperf.plugin import session

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "calibrate", _kept(session.calibrate))
        patch.setattr(measure, "MOST_REPLACED", 0)
        patch.setattr(process, "started", functools.partial(process.started, libraries=["numpy"]))
        return (yield)


def _kept(calibrate: Any) -> Any:
    import msgspec

    from pytest_sdperf.core.values.calibration import Calibration

    def once(context: Any, *, python: Path | None) -> Calibration | None:
        file = Path(os.environ[VARIABLE]) / f"{context.device.kind}-{python is None}.json"
        if file.exists():
            return msgspec.json.decode(file.read_bytes(), type=Calibration | None)
        found: Calibration | None = calibrate(context, python=python)
        part = file.with_suffix(f".{os.getpid()}")
        part.write_bytes(msgspec.json.encode(found))
        part.rename(file)
        return found

    return once
