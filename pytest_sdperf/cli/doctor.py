"""`sdperf doctor`: which engines are ready here, what each can do, and on what it last ran."""

from __future__ import annotations

import argparse
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_sdperf.builds.fingerprint import library_versions
from pytest_sdperf.cli.command import Commands
from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.contracts import Engine
from pytest_sdperf.core.device import Device, DeviceKind, DeviceProbe
from pytest_sdperf.core.errors import DeviceMissingError

RUNS = Path(__file__).parent.parent / "data" / "engine-runs.json"
NEVER = "never run on hardware"


@dataclass(frozen=True)
class EngineRun:
    """Somebody ran the suites with an engine, and they passed.

    Attributes:
        engine: Its name.
        date: ISO date.
        card: The device.
        driver: Version of its driver; empty for a CPU.
        versions: Libraries of the run.
    """

    engine: str
    date: str
    card: str
    driver: str
    versions: Mapping[str, str]

    def __str__(self) -> str:
        """Say it in one line."""
        driver = f" (driver {self.driver})" if self.driver else ""
        named = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        return f"{self.date} on {self.card}{driver} with {named}"


def add_to(commands: Commands) -> None:
    """Add the command."""
    checks = commands.add_parser("doctor", help="say which engines and devices work here, and what the others need")
    checks.set_defaults(lines=doctor)


def doctor(_: argparse.Namespace) -> Iterator[str]:
    """Yield a few lines per engine, one per device, and how clocks may be locked."""
    # Not at the top: pytest warns about plug-ins that were imported before it rewrites their asserts.
    from pytest_sdperf import builtins

    catalog = Catalog()
    builtins.pytest_sdperf_register(catalog)
    found = {name: _devices(probe) for name, probe in catalog.probes.items().items()}
    kinds = {device.kind for devices in found.values() for device in devices if isinstance(device, Device)}
    runs = read_runs()
    yield "engines"
    for name, engine in catalog.engines.items().items():
        yield f"  {name}: {_state(engine, kinds)}"
        yield from (f"    {line}" for line in optimization_lines(engine, catalog.ladder))
        yield from (f"    last run  {run}" for run in runs.get(name, ()) or [NEVER])
    yield "devices"
    for name, devices in found.items():
        told = [f"{one.name} ({one.slug})" if isinstance(one, Device) else one for one in devices]
        yield from (f"  {name}: {text}" for text in told or ["none"])
    yield from _clocks(catalog.probes.items(), found)


def _clocks(probes: Mapping[str, DeviceProbe], found: Mapping[str, Sequence[Device | str]]) -> Iterator[str]:
    """Yield how the owner of a GPU may hold its clocks; nothing here ever does it."""
    pairs = [(probes[name], device) for name, devices in found.items() for device in devices]
    known = [commands for probe, one in pairs if isinstance(one, Device) and (commands := probe.clock_commands(one))]
    if known:
        yield "clocks: the owner of a GPU may lock them while it is measured, and let them go afterwards"
    for commands in known:
        yield f"  {commands.lock}"
        yield f"  {commands.unlock}"


def read_runs(path: Path = RUNS) -> dict[str, tuple[EngineRun, ...]]:
    """Return engine -> its last run on each device, newest first."""
    runs = [EngineRun(**entry) for entry in json.loads(path.read_text(encoding="utf-8"))["runs"]]
    newest_first = sorted(runs, key=lambda run: run.date, reverse=True)
    return {engine: tuple(run for run in newest_first if run.engine == engine) for engine in {r.engine for r in runs}}


def optimization_lines(engine: Engine, ladder: Sequence[str]) -> Iterator[str]:
    """Yield which optimizations an engine supports, and then why not the others: one line per reason."""
    refused: dict[str, list[tuple[str, str]]] = {}
    for optimization in ladder:
        reason = engine.supports(optimization)
        if reason is not None:
            refused.setdefault(reason.replace(optimization, ""), []).append((optimization, reason))
    names = {optimization for same in refused.values() for optimization, _ in same}
    yield f"ladder    {', '.join(optimization for optimization in ladder if optimization not in names)}"
    for same in refused.values():
        first, reason = same[0]
        told = reason.replace(first, "each") if len(same) > 1 else reason
        yield f"not       {', '.join(optimization for optimization, _ in same)}: {told}"


def _state(engine: Engine, here: Collection[DeviceKind]) -> str:
    """Say whether an engine is ready for the GPU of this machine, if it runs on such a one."""
    kind = next((kind for kind in engine.device_kinds if kind in here and kind != "cpu"), engine.device_kinds[0])
    missing = engine.missing(kind)
    if missing is not None:
        return missing
    versions = library_versions(*(need.module.partition(".")[0] for need in engine.requirements))
    named = (f"{name} {version}" for name, version in versions.items())
    return f"ready ({', '.join(named)}; runs on {', '.join(engine.device_kinds)})"


def _devices(probe: DeviceProbe) -> Sequence[Device | str]:
    """Return the devices of a probe, or why it found none."""
    try:
        return probe.find()
    except DeviceMissingError as error:
        return [str(error)]
