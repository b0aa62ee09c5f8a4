"""`sdperf doctor`: which engines and devices work here, and what the others need."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterator, Sequence

from pytest_sdperf.building.fingerprint import library_versions
from pytest_sdperf.catalog import Catalog
from pytest_sdperf.cli.command import Commands
from pytest_sdperf.contracts import Engine
from pytest_sdperf.device import Device, DeviceKind, DeviceProbe
from pytest_sdperf.errors import DeviceMissingError


def add_to(commands: Commands) -> None:
    """Add the command."""
    checks = commands.add_parser("doctor", help="say which engines and devices work here, and what the others need")
    checks.set_defaults(lines=doctor)


def doctor(_: argparse.Namespace) -> Iterator[str]:
    """Yield one line per engine and per device."""
    # Not at the top: pytest warns about plug-ins that were imported before it rewrites their asserts.
    from pytest_sdperf import builtins

    catalog = Catalog()
    builtins.pytest_sdperf_register(catalog)
    found = {name: _devices(probe) for name, probe in catalog.probes.items().items()}
    kinds = {device.kind for devices in found.values() for device in devices if isinstance(device, Device)}
    yield "engines"
    yield from (f"  {name}: {_state(engine, kinds)}" for name, engine in catalog.engines.items().items())
    yield "devices"
    for name, devices in found.items():
        told = [f"{one.name} ({one.slug})" if isinstance(one, Device) else one for one in devices]
        yield from (f"  {name}: {text}" for text in told or ["none"])


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
