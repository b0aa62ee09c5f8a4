"""The physical floor of a measured case: what it called how often, and what its device can do at most."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from pytest_sdperf.errors import SdperfError
from pytest_sdperf.floor import UNKNOWN, Floor, Part
from pytest_sdperf.peaks import device_floor
from pytest_sdperf.runner import CaseRunner
from pytest_sdperf.values import Measurement

# The prompt and the negative prompt of guidance are encoded one after the other.
ENCODER_CALLS = 2


def with_floor(measurement: Measurement, runner: CaseRunner) -> Measurement:
    """Return a measurement with the floor of its case, or with a remark that says why none is known.

    A CPU has none: its rates depend on too much.

    Args:
        measurement: With the calibration of the session, where there is one.
        runner: The case.
    """
    if runner.workbench.device.kind == "cpu" or not measurement.samples:
        return measurement
    why = ""
    try:
        floor = _floor(measurement, runner)
    except SdperfError as error:
        floor, why = None, f"counting the operations failed ({str(error).rstrip('.')})"
    if floor is not None:
        return dataclasses.replace(measurement, floor=floor)
    if not runner.workbench.settings.selection.has_module:
        why = "operations are counted on torch modules, and none stands for graphs that were given"
    why = why or "neither a data sheet nor a calibration tells what this device does at most in this floating type"
    return dataclasses.replace(measurement, remarks=(*measurement.remarks, f"{UNKNOWN}: {why}."))


def _floor(measurement: Measurement, runner: CaseRunner) -> Floor | None:
    workbench = runner.workbench
    if not workbench.settings.selection.has_module:
        return None
    count, builds = workbench.builder.work.of, runner.builds()
    parts = [
        Part(count(runner.case.model, name, runner.case.workload), calls, builds[name].floating)
        for name, calls in _calls(measurement, runner)
    ]
    return device_floor(parts, workbench.device, measurement.calibration)


def _calls(measurement: Measurement, runner: CaseRunner) -> Iterator[tuple[str, int]]:
    """Yield how often each component was called for one timed call of the case."""
    for name in runner.components:
        if not runner.is_pipeline:
            yield name, 1
        elif name == "unet":
            yield name, measurement.samples[-1].unet_calls
        else:
            yield name, ENCODER_CALLS if name.startswith("text_encoder") else 1
