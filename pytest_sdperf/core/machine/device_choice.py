"""Which device `--gpu` means, and how a worker is held to it."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.device import Device, DeviceKind, DeviceProbe
from pytest_sdperf.core.errors import DeviceMissingError, UnknownNameError
from pytest_sdperf.core.machine.gpu_facts import KINDS, VISIBILITY_VARIABLES, GpuTable, load_gpus, to_slug
from pytest_sdperf.core.machine.health import differing_keys

_GIB = 2**30
_HIDDEN = "-1"  # an empty value hides nothing from HIP and cannot be set on Windows


@dataclass(frozen=True)
class DetectedDevice:
    """A device with the probe that found it: of several probes for one kind, only that one knows the device."""

    probe: DeviceProbe
    device: Device


@dataclass
class DetectedGpus:
    """The GPUs of this machine.

    Attributes:
        found: What the probes found.
        absent: Name of a probe that found nothing -> why.
    """

    found: list[DetectedDevice] = field(default_factory=list)
    absent: dict[str, str] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """Return a line per GPU and per probe that found none."""
        return [
            *(f"  {n}: {one.device.name} ({one.device.slug})" for n, one in enumerate(self.found)),
            *(f"  {probe}: {reason}" for probe, reason in self.absent.items()),
        ]


def choose_device(gpu: str, probes: Mapping[str, DeviceProbe], *, environ: Mapping[str, str]) -> DetectedDevice:
    """Return the device that was asked for, with its probe; of several that fit, the first that nobody uses.

    Args:
        gpu: `cpu` or nothing; `auto`; a vendor or its software (`nvidia`, `cuda`, `amd`, `rocm`); a family
            (`a100`); an architecture (`gfx942`); a slug (`a100-sxm4-40gb`); a position among the GPUs that this
            process may see (`0`); or the start of a UUID (`GPU-5c1f`).
        probes: Name -> probe, in the order in which positions count.
        environ: Environment, to name the variables that hide devices when none fits.

    Raises:
        DeviceMissingError: No device of this machine fits; the message says what is there and what to type.
        UnknownNameError: No device anywhere has such a name.
    """
    request = gpu.strip()
    if request.lower() in {"", "cpu"}:
        return _cpu(probes)
    here = detect_gpus(probes)
    fits = [one for position, one in enumerate(here.found) if _fits(one.device, request, position=position)]
    if not fits:
        _refuse(request, here, environ)
    if _is_uuid(request) and len(fits) > 1:
        raise DeviceMissingError(
            f"UUID {request!r} is the start of {len(fits)} devices: {', '.join(one.device.uuid for one in fits)}. "
            "Type more of it."
        )
    if len(fits) == 1:
        return fits[0]
    return min(fits, key=_busy)


def peers(gpu: str, catalog: Catalog, chosen: DetectedDevice) -> tuple[list[Device], list[str]]:
    """Return the devices that measure like the one that was chosen, itself first, and why others do not.

    A case has one baseline, and that is of one machine: a card with another power limit is another machine.

    Args:
        gpu: What names them, as in `choose_device`.
        catalog: What is registered.
        chosen: The device that a run without workers would use.
    """
    here = detect_gpus(catalog.probes.items())
    fits = [one for position, one in enumerate(here.found) if _fits(one.device, gpu.strip(), position=position)]
    others = [one for one in fits if (one.probe, one.device) != (chosen.probe, chosen.device)]
    alike, left_out = [chosen.device], []
    for one in sorted(others, key=_busy):
        differing = differing_keys(chosen.device.machine, one.device.machine)
        if one.device.slug != chosen.device.slug or differing:
            told = ", ".join(f"{name} {now} instead of {then}" for name, (then, now) in differing.items())
            left_out.append(f"{one.device.name} ({one.device.slug}), with {told or 'another name'}")
        elif one.device.physical in {other.physical for other in alike} - {""}:
            left_out.append(f"{one.device.name} ({one.device.slug}), a part of the same card")
        else:
            alike.append(one.device)
    return alike, left_out


def named_kind(gpu: str) -> DeviceKind | None:
    """Return the kind of device that a name means, whether or not this machine has it; None if the name leaves it open.

    Args:
        gpu: As in `choose_device`.
    """
    name = to_slug(gpu)
    if name in {"", "cpu"}:
        return "cpu"
    return load_gpus().kind_of(name)


def describe(device: Device) -> str:
    """Return the header line of a run: name, slug and what limits the device."""
    machine = device.machine
    parts = [f"{device.name} ({device.slug})"]
    if machine.get("cores") is not None:
        parts.append(f"{machine['cores']} cores")
    elif machine.get("arch") is not None:
        parts.append(str(machine["arch"]))
    memory = machine.get("memory_bytes")
    if isinstance(memory, (int, float)):
        parts.append(f"{memory / _GIB:.1f} GiB")
    if machine.get("driver") is not None:
        parts.append(f"driver {machine['driver']}")
    limit = machine.get("power_limit_w")
    if isinstance(limit, (int, float)):
        parts.append(f"power limit {limit:g} W")
    return ", ".join(parts)


def worker_environment(device: Device, *, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables that make a worker see this one device, as its first; on a CPU, no GPU at all.

    Args:
        device: As `choose_device` returned it.
        environ: Environment that the worker inherits, which matters where a device has no UUID; the process's own if
            None.
    """
    environ = os.environ if environ is None else environ
    if device.kind == "cpu":
        return {"CUDA_VISIBLE_DEVICES": _HIDDEN, "HIP_VISIBLE_DEVICES": _HIDDEN}
    if device.kind == "cuda":
        chosen = device.uuid or _entry(environ.get("CUDA_VISIBLE_DEVICES"), device.index)
        return {"CUDA_VISIBLE_DEVICES": chosen, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    if device.uuid:
        # Only ROCR_VISIBLE_DEVICES takes UUIDs in every release; HIP then counts among the one that is left.
        return {"ROCR_VISIBLE_DEVICES": device.uuid, "HIP_VISIBLE_DEVICES": "0", "CUDA_VISIBLE_DEVICES": "0"}
    inherited = environ.get("HIP_VISIBLE_DEVICES", environ.get("CUDA_VISIBLE_DEVICES"))
    chosen = _entry(inherited, device.index)
    return {"HIP_VISIBLE_DEVICES": chosen, "CUDA_VISIBLE_DEVICES": chosen}


def _cpu(probes: Mapping[str, DeviceProbe]) -> DetectedDevice:
    for probe in probes.values():
        if probe.kind == "cpu":
            return DetectedDevice(probe, probe.find()[0])
    raise DeviceMissingError(
        "no device probe for CPUs is registered. Known probes: "
        f"{', '.join(probes) or 'none'}. Leave the plug-in pytest_sdperf.builtins switched on."
    )


def detect_gpus(probes: Mapping[str, DeviceProbe]) -> DetectedGpus:
    """Ask every probe but that of CPUs what is here."""
    here = DetectedGpus()
    for name, probe in probes.items():
        if probe.kind == "cpu":
            continue
        try:
            here.found.extend(DetectedDevice(probe, device) for device in probe.find())
        except DeviceMissingError as error:
            here.absent[name] = str(error)
    return here


def _fits(device: Device, request: str, *, position: int) -> bool:
    if _is_uuid(request):
        return device.uuid.lower().startswith(request.lower())
    if request.isdecimal():
        return position == int(request)
    names = load_gpus().names_of(device.slug, kind=device.kind, arch=device.machine.get("arch"))
    return to_slug(request) in {"auto", *names}


def _is_uuid(request: str) -> bool:
    return request.upper().startswith(("GPU-", "MIG-"))


def _busy(found: DetectedDevice) -> int:
    """Rank a device: 0 idle, 1 perhaps in use, 2 in use."""
    health = found.probe.health(found.device)
    if health.other_processes:
        return 2
    return 0 if health.other_processes == 0 and not health.reasons else 1


def _refuse(request: str, here: DetectedGpus, environ: Mapping[str, str]) -> NoReturn:
    table = load_gpus()
    name = to_slug(request)
    somewhere = name == "auto" or table.kind_of(name) is not None
    if not (somewhere or request.isdecimal() or _is_uuid(request)):
        raise _unknown(request, here, table)
    lines = [f"GPU {request!r} was asked for, but no device of this machine answers to it.", *here.lines()]
    hidden = [f"{variable}={environ[variable]!r}" for variable in VISIBILITY_VARIABLES if variable in environ]
    if hidden and here.found:
        lines.append(f"{' and '.join(hidden)} may hide others.")
    if here.found:
        lines.append(f"Type --sdperf-gpu={here.found[0].device.slug}, or leave the option out to run on the CPU.")
    else:
        lines.append("Leave the option out to run on the CPU, and with it engines that run on GPUs only.")
    raise DeviceMissingError("\n".join(lines))


def _unknown(request: str, here: DetectedGpus, table: GpuTable) -> UnknownNameError:
    present = {one.device.slug for one in here.found}
    near = difflib.get_close_matches(request.lower(), {*table.slugs, *present}, n=1, cutoff=0.5)
    return UnknownNameError(
        "GPU",
        request,
        {"auto", "cpu", *KINDS, *table.families, *present, *near},
        hint="An exact card (a100-sxm4-40gb), an architecture (gfx942), a position (0) or the start of a UUID "
        "(GPU-5c1f) is understood too.",
    )


def _entry(inherited: str | None, index: int) -> str:
    """Return how the worker must name the device that is `index`-th of what an inherited variable leaves."""
    return str(index) if inherited is None else inherited.split(",")[index].strip()


def find_device(gpu: str, catalog: Catalog) -> DetectedDevice:
    """Return the device that `gpu` names.

    Raises:
        DeviceMissingError: It is not in this machine.
        UnknownNameError: No device has such a name.
    """
    return choose_device(gpu, catalog.probes.items(), environ=os.environ)


def asked_kind(gpu: str, catalog: Catalog) -> tuple[DeviceKind, DetectedDevice | None]:
    """Return the kind of the device that was asked for, and the device itself if it is a GPU of this machine.

    The tests of graphs run anywhere, also for a GPU that is elsewhere: its kind then follows from its name.

    Raises:
        UnknownNameError: No device has such a name.
    """
    if gpu.lower() in {"", "cpu"}:
        return "cpu", None
    try:
        found = find_device(gpu, catalog)
    except DeviceMissingError:
        return named_kind(gpu) or "cuda", None
    return found.device.kind, found
