"""Measurements of a run that has not finished, so that the next one can take them.

The unit is the case: a whole measurement, with the machine's health before and after it, is written when it is done. Of
a case that was interrupted nothing is kept, because its processes would be joined by others of another hour.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pytest_sdperf.baselines import privacy
from pytest_sdperf.baselines.files import pretty, write_atomically
from pytest_sdperf.builds.content_key import content_key
from pytest_sdperf.builds.fingerprint import modules_of, source_hash
from pytest_sdperf.core import clock
from pytest_sdperf.core.contracts import Engine, Model
from pytest_sdperf.core.files.strict_json import convert
from pytest_sdperf.core.settings import EngineRequest, Settings
from pytest_sdperf.core.values import Build, Case, Measurement, finite, to_json
from pytest_sdperf.tasks.sampling.timing import TimingPlan

RESUMABLE_S = 12 * 3600.0
_SCHEMA = 1
_TASKS = ("pytest_sdperf.tasks.component", "pytest_sdperf.tasks.pipeline", "pytest_sdperf.tasks.worker")
# Prefixes of the variables that change what a worker computes with, or how fast.
_VARIABLES = (
    *("CUBLAS", "CUDA", "CUDNN", "GOMP", "GPU_", "HIP", "HSA", "KMP", "LD_", "MIGRAPHX", "MIOPEN", "MKL", "NVIDIA"),
    *("OMP", "OPENBLAS", "ORT", "PYTHON", "PYTORCH", "ROCR", "TENSORRT", "TORCH", "TRITON"),
)
_INSTALLED = (
    "import importlib.metadata as m; print(sorted({f'{d.metadata[\"Name\"]} {d.version}' for d in m.distributions()}))"
)

Conditions = Mapping[str, str]


class Unfinished:
    """What a run of one device has measured so far, and what an earlier one left.

    Example::

        measurement = unfinished.find(case, conditions)[0] or measure(...)
        unfinished.keep(measurement, conditions, processes=3)
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._began_s = clock.wall_s()

    def keep(self, measurement: Measurement, conditions: Conditions, *, processes: int) -> bool:
        """Write a measurement, in one step; return whether it is one that a later run may take.

        A machine that was not fit, or a worker that crashed, is worth another try.

        Raises:
            OSError: The state folder cannot be written.
        """
        whole = measurement.out_of_memory or (measurement.failure is None and len(measurement.samples) >= processes)
        if measurement.health or not whole:
            return False
        self._forget_old()
        data = {
            "schema": _SCHEMA,
            "date": measurement.resumed or clock.today_utc(),
            "conditions": dict(conditions),
            "measurement": finite(to_json(dataclasses.replace(measurement, resumed=""))),
        }
        write_atomically(self._path(measurement.case), pretty(privacy.redact(data, privacy.identity())) + "\n")
        return True

    def find(self, case: Case, conditions: Conditions) -> tuple[Measurement | None, str]:
        """Return what an interrupted run measured, or why that cannot be taken; two empty answers if it is not there.

        Args:
            case: The case.
            conditions: Under which it would be measured now.
        """
        data = self._read(case)
        if data is None:
            return None, ""
        try:
            differing = [name for name, value in conditions.items() if data["conditions"].get(name) != value]
            measurement = convert(data["measurement"], Measurement, strict=False)
            date = str(data["date"])
        except (AttributeError, KeyError, TypeError, ValueError):
            return None, "its file is damaged"
        if differing:
            return None, f"another {' and another '.join(differing)}"
        return dataclasses.replace(measurement, case=case, resumed=date), ""

    def holds(self, case: Case) -> bool:
        """Whether a later run may find a measurement of a case."""
        return self._path(case).exists()

    def drop(self, cases: Iterable[Case]) -> None:
        """Forget measurements: a run has finished with them."""
        for case in cases:
            self._path(case).unlink(missing_ok=True)

    def _read(self, case: Case) -> dict[str, Any] | None:
        path = self._path(case)
        try:
            # What this run measured itself is not taken by another of its tests.
            if not self._began_s - RESUMABLE_S < path.stat().st_mtime < self._began_s:
                return None
            data = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError):
            return {}
        return data if isinstance(data, dict) and data.get("schema") == _SCHEMA else {}

    def _path(self, case: Case) -> Path:
        return self._folder / f"{content_key({'case': case.key})}.json"

    def _forget_old(self) -> None:
        for path in self._folder.glob("*.json"):
            with contextlib.suppress(OSError):
                if clock.wall_s() - path.stat().st_mtime > RESUMABLE_S:
                    path.unlink()


def conditions_of(
    request: EngineRequest,
    builds: Mapping[str, Build],
    *,
    engine: Engine,
    model: Model,
    machine: Mapping[str, Any],
    plan: TimingPlan,
    settings: Settings,
) -> Conditions:
    """Return what has to be equal for a measurement to stand for one that is taken now: name -> hash.

    Args:
        request: The engine, with its interpreter and environment.
        builds: What it loads.
        engine: What runs it, for its source code.
        model: What it belongs to, for its source code.
        machine: Machine keys.
        plan: How many calls each process takes.
        settings: The command line.
    """
    environment = {name: value for name, value in {**os.environ, **request.env}.items() if name.startswith(_VARIABLES)}
    parts: dict[str, Any] = {
        "machine": dict(machine),
        "build": {name: build.key for name, build in builds.items()},
        "number of processes or calls": [settings.processes, to_json(plan)],
        "environment": environment,
        "interpreter": str(request.python or sys.executable),
        "set of installed packages": _installed(request.python or Path(sys.executable)),
        "version of the code": source_hash(*_TASKS, *modules_of(engine, model)),
    }
    return {name: content_key({name: value}) for name, value in parts.items()}


@functools.cache
def _installed(python: Path) -> str:
    """Return the distributions of an interpreter with their versions; where it does not answer, what equals nothing."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(  # noqa: S603 - an interpreter that the user named, without a shell
            [str(python), "-c", _INSTALLED], capture_output=True, text=True, check=True, timeout=60
        ).stdout
    return f"unknown {uuid.uuid4()}"
