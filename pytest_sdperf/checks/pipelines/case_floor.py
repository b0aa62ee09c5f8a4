"""The physical floor of a measured case: what it called how often, and what its device can do at most."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from pytest_sdperf.builds.execution.runner import CaseRunner
from pytest_sdperf.checks.pipelines.peaks import device_floor
from pytest_sdperf.core.errors import SdperfError
from pytest_sdperf.core.values import Measurement
from pytest_sdperf.core.values.floor import Floor, Part

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
