"""What engines compile: once per case, kept in the cache, handed to every process that measures."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_sdperf.builds.cache import Cache, Entry
from pytest_sdperf.builds.content_key import content_key
from pytest_sdperf.builds.execution.device_lock import DeviceLock
from pytest_sdperf.builds.fingerprint import modules_of, source_hash
from pytest_sdperf.builds.processes import process
from pytest_sdperf.builds.steps import shapes_only, step_of
from pytest_sdperf.core import progress
from pytest_sdperf.core.contracts import Engine
from pytest_sdperf.core.device import Device
from pytest_sdperf.core.errors import SdperfError, WorkerError
from pytest_sdperf.core.settings import EngineRequest, Settings
from pytest_sdperf.core.values import to_json
from pytest_sdperf.tasks import compile as task
from pytest_sdperf.tasks._execution import Compiled, Execution
from pytest_sdperf.tasks._loading import WORK_DIR

_STEP = "compile"
_DIGITS = 16  # of a key, for the versions of libraries


@dataclasses.dataclass(frozen=True)
class Compilations:
    """The compiled components of one session.

    Attributes:
        cache: Where they are kept.
        settings: The command line.
        device: What they are compiled for.
        turns: Of this process on the device: a compiler of a GPU tries kernels on it.
    """

    cache: Cache
    settings: Settings
    device: Device
    turns: DeviceLock
    _versions: dict[tuple[str, Path | None, str], Mapping[str, str]] = dataclasses.field(default_factory=dict)
    _failed: dict[str, SdperfError] = dataclasses.field(default_factory=dict)

    def find(
        self,
        engine: Engine,
        case: Execution,
        component: str,
        *,
        request: EngineRequest,
        start: Mapping[str, Any],
    ) -> Compiled:
        """Compile one component, unless the cache has it.

        Args:
            engine: The engine.
            case: Has the component.
            component: Its name.
            request: What was asked for: interpreter and environment.
            start: How a process of the case is started: `out_dir`, `registrars`, `python`, `env`.

        Raises:
            OutOfMemoryError: The device ran out of memory.
            WorkerError: Compiling crashed, or took longer than `sdperf_build_timeout`.
            SdperfError: The engine refused.
        """
        versions = content_key({"versions": self._versions_of(engine, start)})
        key = self.key_start(engine, case, component, request=request) + versions[:_DIGITS]
        if key in self._failed:
            raise self._failed[key]
        try:
            entry = self._compile(key, dataclasses.replace(case, component=component), start)
        except SdperfError as error:
            self._failed[key] = error
            raise
        return Compiled(entry.path / WORK_DIR, entry.size_bytes, step_of(entry))

    def key_start(self, engine: Engine, case: Execution, component: str, *, request: EngineRequest) -> str:
        """Return how the key of a component begins: all of it but the versions, which only the libraries can tell.

        Arguments as for `find`.
        """
        part = case.parts[component]
        parts = {
            "component": component,
            "model": case.model,
            "workload": to_json(shapes_only(case.workload)),
            "part": {
                "engine": part.engine,
                "options": part.options,
                "build": part.build.key,
                "dtype": part.build.dtype,
                "shapes": part.shapes,
            },
            "python": str(request.python or ""),
            "env": dict(request.env),
            "code": source_hash(*modules_of(engine)),
            "device": {"slug": self.device.slug, "driver": to_json(self.device.machine.get("driver"))},
        }
        return f"{_STEP}-{content_key(parts)}"

    def _compile(self, key: str, case: Execution, start: Mapping[str, Any]) -> Entry:
        what = f"compiling {case.model} {case.component}"

        def make(folder: Path) -> dict[str, Any]:
            with progress.step(what, like=_like(case)):
                answer = self._run("run", case, folder, start)
            (folder / "stderr.txt").unlink(missing_ok=True)
            return answer

        entry = self.cache.find(key)
        if entry is not None:
            return entry
        # The device first, and then the entry: who measures has the device already and may wait for the entry, and
        # the other way round two runs would wait for each other for ever.
        with self.turns.alone_on_gpu(what):
            return self.cache.make(key, make)

    def _versions_of(self, engine: Engine, start: Mapping[str, Any]) -> Mapping[str, str]:
        """Ask the interpreter that will load the component, once per session."""
        asked = (engine.name, start["python"], content_key(start["env"]))
        if asked not in self._versions:
            request = task.FindVersions(engine.name, self.device.kind)
            self._versions[asked] = self._run("versions", request, start["out_dir"], start)
        return self._versions[asked]

    def _run(self, function: str, request: Any, folder: Path, start: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return process.run_task(
                f"{task.__name__}:{function}",
                request,
                out_dir=folder,
                timeout_s=self.settings.build_timeout_s,
                in_process=self.settings.in_process,
                registrars=start["registrars"],
                python=start["python"],
                env=start["env"],
                what=f"asking {request.engine} for its versions" if function == "versions" else "compiling",
                option=progress.BUILD_TIMEOUT,
            )
        except WorkerError as error:
            if error.reason != "timeout":
                raise
            message = f"{error} while compiling. Allow more with -o sdperf_build_timeout=TIME."
            raise WorkerError(message, reason=error.reason, tail=error.tail) from error


def _like(case: Execution) -> str:
    """Return what is equal for compilations that take about as long, whatever builds and versions they are made of."""
    part, work = case.parts[case.component], case.workload
    what = {"engine": part.engine, "options": part.options, "shapes": part.shapes, "dtype": part.build.dtype}
    sizes = {"batch_size": work.batch_size, "height": work.height, "width": work.width}
    return content_key({**what, **sizes})
