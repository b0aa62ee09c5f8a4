"""Find out what a device itself does today, in a process of its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pytest_sdperf.builds.execution.run_context import RunContext
from pytest_sdperf.builds.processes.process import run_task
from pytest_sdperf.core.device import Device
from pytest_sdperf.core.errors import SdperfError
from pytest_sdperf.core.files.strict_json import convert
from pytest_sdperf.core.machine.device_choice import worker_environment
from pytest_sdperf.core.values.calibration import Calibration
from pytest_sdperf.tasks import calibrate as task


def calibrate(bench: RunContext, *, python: Path | None) -> Calibration | None:
    """Return the rates of the device; None where nothing can measure them, which is said.

    Args:
        bench: The device, and where things are put.
        python: Interpreter that has torch; the suite's own if None.
    """
    try:
        answer = run_task(
            f"{task.__name__}:run",
            task.CalibrateDevice(bench.device.kind),
            out_dir=bench.new_folder("calibration"),
            timeout_s=bench.settings.worker_timeout_s,
            python=python,
            env={**worker_environment(bench.device), **_every_core(bench.device)},
            in_process=bench.settings.in_process,
        )
    except SdperfError as error:
        bench.say(f"not calibrated: {error}")
        return None
    return convert(answer, Calibration)


def _every_core(device: Device) -> Mapping[str, str]:
    """A processor is calibrated with all of it: fewer threads for an engine do not make a slower processor."""
    if device.kind != "cpu":
        return {}
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    return dict.fromkeys(names, str(device.machine.get("cores") or 1))
