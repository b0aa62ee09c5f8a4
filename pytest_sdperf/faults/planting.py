"""A fault at its place: each function does nothing where nothing is planted, or where it goes in somewhere else.

Standard library only at import time: workers import this under foreign interpreters.
"""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pytest_sdperf.core.contracts import Runner
from pytest_sdperf.core.device import ClockCommands, Device, DeviceProbe, Health
from pytest_sdperf.faults import known
from pytest_sdperf.faults.fault import Fault, FaultStage

T = TypeVar("T")


def at(name: str, place: FaultStage) -> Fault | None:
    """Return the fault of this name if it goes in here; None if it does not, or without a name."""
    fault = known.get(name) if name else None
    return fault if fault is not None and fault.place is place else None


def builds(name: str) -> bool:
    """Say whether a fault goes into what is built."""
    return any(at(name, place) for place in (FaultStage.WEIGHTS, FaultStage.EXPORT, FaultStage.GRAPH))


def of_task(name: str) -> str:
    """Return the name of a fault of which a task is told; empty where it goes in elsewhere."""
    inside = any(at(name, place) for place in (FaultStage.RUNNER, FaultStage.LIBRARY, FaultStage.ANSWER))
    return name if inside else ""


def of_reference(name: str) -> str:
    """Return the name of a fault that reference and engine have in common; of every other one nothing."""
    return name if at(name, FaultStage.LIBRARY) else ""


def libraries(name: str) -> contextlib.AbstractContextManager[None]:
    """Return a context in which the libraries of this process have a fault."""
    fault = at(name, FaultStage.LIBRARY)
    context: contextlib.AbstractContextManager[None] = fault.change() if fault else contextlib.nullcontext()
    return context


def loaded(name: str, component: str, runner: Runner) -> Runner:
    """Return a loaded component with a fault."""
    fault = at(name, FaultStage.RUNNER)
    if fault is None or fault.component not in ("", component):
        return runner
    planted: Runner = fault.change(runner)
    return planted


def answered(request: Mapping[str, Any], answer: Any, channel: Any) -> Any:
    """Return the answer of a task with the fault that its request, JSON data, tells of; only samples can have one."""
    if not isinstance(answer, dict) or "sample" not in answer:
        return answer
    fault = at(request["case"]["planted"], FaultStage.ANSWER)
    return answer if fault is None else fault.change(answer, channel)


def collected(name: str, things: tuple[T, ...]) -> tuple[T, ...]:
    """Return what was collected with a fault in it."""
    fault = at(name, FaultStage.CASES)
    changed: tuple[T, ...] = things if fault is None else tuple(fault.change(things))
    return changed


def read_baseline(name: str, path: Path, read: Callable[[Path], T]) -> T:
    """Read the file of a baseline; with a fault in it, a copy."""
    fault = at(name, FaultStage.BASELINE)
    if fault is None or not path.is_file():
        return read(path)
    with tempfile.TemporaryDirectory(prefix="sdperf-planted-") as folder:
        copy = Path(folder) / path.name
        copy.write_text(fault.change(path.read_text(encoding="utf-8")), encoding="utf-8")
        return read(copy)


def device(name: str, found: Device) -> Device:
    """Return a device whose machine has a fault."""
    fault = at(name, FaultStage.MACHINE)
    if fault is None:
        return found
    return dataclasses.replace(found, machine=fault.change(found.machine))


def probe(name: str, inner: DeviceProbe) -> DeviceProbe:
    """Return a probe whose readings have a fault."""
    fault = at(name, FaultStage.READINGS)
    return inner if fault is None else PlantedProbe(inner, fault)


class PlantedProbe(DeviceProbe):
    """Reads a device as another probe does, with a fault in what it reads."""

    def __init__(self, inner: DeviceProbe, fault: Fault) -> None:
        self.name, self.kind = inner.name, inner.kind
        self._inner, self._fault, self._readings = inner, fault, 0

    def find(self) -> tuple[Device, ...]:
        """Pass on."""
        return self._inner.find()

    def health(self, device: Device) -> Health:
        """Return the reading with the fault; they are counted, from 1 on."""
        self._readings += 1
        health: Health = self._fault.change(self._inner.health(device), self._readings)
        return health

    def memory_used_bytes(self, device: Device) -> int | None:
        """Pass on."""
        return self._inner.memory_used_bytes(device)

    def clock_commands(self, device: Device) -> ClockCommands | None:
        """Pass on."""
        return self._inner.clock_commands(device)
