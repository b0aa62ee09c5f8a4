"""Faults as alterations of a run: each goes in at its place, and everywhere else nothing is altered.

Standard library only at import time: workers import this under foreign interpreters.
"""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from pytest_sdperf.core.alteration import Alteration, BuildStage
from pytest_sdperf.core.contracts import Runner
from pytest_sdperf.core.device import ClockCommands, Device, DeviceProbe, Health
from pytest_sdperf.faults import files
from pytest_sdperf.faults.fault import Fault, FaultStage, NowhereError
from pytest_sdperf.faults.outcome import outcome_of

T = TypeVar("T")
_STAGES = {
    FaultStage.WEIGHTS: BuildStage.WEIGHTS,
    FaultStage.EXPORT: BuildStage.EXPORT,
    FaultStage.GRAPH: BuildStage.GRAPH,
}


class PlantedFault(Alteration):
    """Plants one fault."""

    word = "PLANTED"

    def __init__(self, fault: Fault) -> None:
        self.name, self.about = fault.name, fault.about
        self.shared = fault.place is FaultStage.LIBRARY
        self._fault = fault

    @property
    def told(self) -> str:
        """What was planted, and where."""
        return f"{self.title} It went into {self._fault.place.value}."

    def _change(self, place: FaultStage, component: str = "") -> Callable[..., Any] | None:
        """Return what plants the fault, if it goes in here."""
        fault = self._fault
        elsewhere = component and fault.component not in ("", component)
        return None if fault.place is not place or elsewhere else fault.change

    def refuses(self, device_kind: str) -> str:
        """Refuse what a CPU has no readings for."""
        if not self._fault.on_gpu or device_kind != "cpu":
            return ""
        return (
            "this is about what only a GPU can show, and this run is on a CPU. Add --sdperf-gpu=auto where there is a "
            "GPU, or plant another fault: `sdperf faults` lists them."
        )

    def cases(self, choices: tuple[T, ...]) -> tuple[T, ...]:
        """Return what was collected with the fault in it."""
        change = self._change(FaultStage.CASES)
        return choices if change is None else tuple(change(choices))

    def device(self, device: Device) -> Device:
        """Return a device whose machine has the fault."""
        change = self._change(FaultStage.MACHINE)
        return device if change is None else dataclasses.replace(device, machine=change(device.machine))

    def probe(self, probe: DeviceProbe) -> DeviceProbe:
        """Return a probe whose readings have the fault."""
        health, energy = self._change(FaultStage.READINGS), self._change(FaultStage.ENERGY)
        return PlantedProbe(probe, health=health, energy=energy) if health or energy else probe

    def read_baseline(self, path: Path, read: Callable[[Path], T]) -> T:
        """Read a copy with the fault in it."""
        change = self._change(FaultStage.BASELINE)
        if change is None or not path.is_file():
            return read(path)
        with tempfile.TemporaryDirectory(prefix="sdperf-planted-") as folder:
            copy = Path(folder) / path.name
            copy.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")
            return read(copy)

    def stages(self, component: str) -> tuple[BuildStage, ...]:
        """Return the stage that the fault goes into, of the component that has it."""
        stage = _STAGES.get(self._fault.place)
        return (stage,) if stage is not None and self._change(self._fault.place, component) else ()

    def conclusions(self, reports: Iterable[Any], *, status: int, unused: bool) -> tuple[str, ...]:
        """Say whether it was found as it must be."""
        return (outcome_of(self._fault, reports, status=status, unused=unused),)

    def build(self, stage: BuildStage, source: Path, folder: Path) -> bool:
        """Write the weights or the graph with the fault, where there is a place for it."""
        try:
            files.plant(self._fault, source, folder)
        except NowhereError:
            return False
        return True

    def libraries(self) -> contextlib.AbstractContextManager[None]:
        """Return a context in which the libraries of this process have the fault."""
        change = self._change(FaultStage.LIBRARY)
        context: contextlib.AbstractContextManager[None] = change() if change else contextlib.nullcontext()
        return context

    def loaded(self, component: str, runner: Runner) -> Runner:
        """Return a loaded component with the fault."""
        change = self._change(FaultStage.RUNNER, component)
        planted: Runner = change(runner) if change else runner
        return planted

    def answer(self, answer: Any, channel: Any) -> Any:
        """Return the answer with the fault; only samples can have one."""
        change = self._change(FaultStage.ANSWER)
        is_sample = isinstance(answer, dict) and "sample" in answer
        return change(answer, channel) if change and is_sample else answer


class PlantedProbe(DeviceProbe):
    """Reads a device as another probe does, with a fault in what it reads.

    Args:
        inner: The other probe.
        health: Changes a reading of its state; they are counted, from 1 on.
        energy: Changes the joules of its counter.
    """

    def __init__(
        self,
        inner: DeviceProbe,
        *,
        health: Callable[[Health, int], Health] | None = None,
        energy: Callable[[float], float] | None = None,
    ) -> None:
        self.name, self.kind = inner.name, inner.kind
        self._inner, self._health, self._energy, self._readings = inner, health, energy, 0

    def find(self) -> tuple[Device, ...]:
        """Pass on."""
        return self._inner.find()

    def health(self, device: Device) -> Health:
        """Return the reading with the fault."""
        self._readings += 1
        health = self._inner.health(device)
        return self._health(health, self._readings) if self._health else health

    def memory_used_bytes(self, device: Device) -> int | None:
        """Pass on."""
        return self._inner.memory_used_bytes(device)

    def energy_j(self, device: Device) -> float | None:
        """Return the counter with the fault."""
        joules = self._inner.energy_j(device)
        return self._energy(joules) if self._energy and joules is not None else joules

    def clock_commands(self, device: Device) -> ClockCommands | None:
        """Pass on."""
        return self._inner.clock_commands(device)
