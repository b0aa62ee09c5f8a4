"""The physical floor of a measured case: what it called how often, and what its device can do at most."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from pytest_sdperf.builds.execution.runner import CaseRunner
from pytest_sdperf.core.device import Device
from pytest_sdperf.core.errors import SdperfError
from pytest_sdperf.core.machine.gpu_facts import GpuTable, load_gpus
from pytest_sdperf.core.values import Measurement
from pytest_sdperf.core.values.calibration import Calibration
from pytest_sdperf.core.values.floor import MEASURED, SHEET, Floor, Part, Peaks, floor_of

# The prompt and the negative prompt of guidance are encoded one after the other.
ENCODER_CALLS = 2


def with_floor(measurement: Measurement, runner: CaseRunner) -> Measurement:
    """Return a measurement with the floor of its case, or with the reason why none is known.

    A CPU has none: its rates depend on too much.

    Args:
        measurement: With the calibration of the session, where there is one.
        runner: The case.
    """
    if runner.context.device.kind == "cpu" or not measurement.samples:
        return measurement
    selection = runner.context.settings.selection
    if not selection.has_module:
        what = "a pipeline of your own" if selection.pipeline else "external graphs"
        return _unknown(measurement, f"operations are counted on torch modules, and none stands for {what}")
    try:
        floor = _floor(measurement, runner)
    except SdperfError as error:
        return _unknown(measurement, f"counting the operations failed ({str(error).rstrip('.')})")
    if floor is None:
        why = "neither a data sheet nor a calibration tells what this device does at most in this dtype"
        return _unknown(measurement, why)
    return dataclasses.replace(measurement, floor=floor)


def _unknown(measurement: Measurement, why: str) -> Measurement:
    return dataclasses.replace(measurement, floor_not_known=why)


def _floor(measurement: Measurement, runner: CaseRunner) -> Floor | None:
    context, count, builds = runner.context, runner.context.builder.work.of, runner.builds()
    parts = [
        Part(count(runner.case.model, name, runner.case.workload), calls, builds[name].dtype)
        for name, calls in _calls(measurement, runner)
    ]
    return device_floor(parts, context.device, measurement.calibration)


def _calls(measurement: Measurement, runner: CaseRunner) -> Iterator[tuple[str, int]]:
    """Yield how often each component was called for one timed call of the case."""
    for name in runner.components:
        if not runner.is_pipeline:
            yield name, 1
        elif name == "unet":
            yield name, measurement.samples[-1].unet_calls
        else:
            yield name, ENCODER_CALLS if name.startswith("text_encoder") else 1


def sheet_of(device: Device, *, gpus: GpuTable | None = None) -> Peaks | None:
    """Return the rates of a card's data sheet, with the accumulation in float32 that engines start from.

    Args:
        device: The device; a part of a card has the rates of the whole card.
        gpus: Table of cards; the one of the package if None.

    Returns:
        None for a CPU, and for a card that is not in the table.
    """
    facts = None if device.kind == "cpu" else (gpus or load_gpus()).facts(device.slug)
    if facts is None or facts.fp16_tflops is None or facts.bandwidth_gb_s is None:
        return None
    return Peaks(facts.fp16_tflops * 1e12, facts.bandwidth_gb_s * 1e9)


def bound_of(device: Device, calibration: Calibration | None, *, gpus: GpuTable | None = None) -> Peaks | None:
    """Return the rates that a card cannot exceed: accumulation in float16 counts, and so does what was measured.

    Cards boost beyond their data sheet, some by a fifth. Arguments and None as for `device_floor`.
    """
    table = gpus or load_gpus()
    sheet, facts = sheet_of(device, gpus=table), table.facts(device.slug)
    if sheet is None or facts is None:
        return None
    rates = (sheet.flops_per_s, (facts.fp16_accumulate_tflops or 0.0) * 1e12)
    if calibration is None:
        return Peaks(max(rates), sheet.bytes_per_s)
    return Peaks(max(*rates, calibration.flops_per_s), max(sheet.bytes_per_s, calibration.bytes_per_s))


def device_floor(
    parts: Iterable[Part], device: Device, calibration: Calibration | None, *, gpus: GpuTable | None = None
) -> Floor | None:
    """Return the floor of a case on a device; None on a CPU, and where no rate of the device is known.

    Args:
        parts: What the case calls.
        device: Where it runs.
        calibration: What the device itself did in this session; None if nobody measured it.
        gpus: As for `sheet_of`.
    """
    if device.kind == "cpu":
        return None
    bound = bound_of(device, calibration, gpus=gpus)
    if calibration is not None:
        measured = Peaks(calibration.flops_per_s, calibration.bytes_per_s)
        return floor_of(parts, peaks=measured, basis=MEASURED, bound=bound)
    sheet = sheet_of(device, gpus=gpus)
    return None if sheet is None else floor_of(parts, peaks=sheet, basis=SHEET, bound=bound)
