"""Measure how fast the device itself multiplies and copies, whatever is tested on it: less than a second."""

from __future__ import annotations

import importlib.util
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass

from pytest_sdperf.core.clock import monotonic_s
from pytest_sdperf.core.device import DeviceKind
from pytest_sdperf.core.errors import EngineMissingError
from pytest_sdperf.core.values.calibration import Calibration
from pytest_sdperf.tasks import TaskContext

GPU_ROWS = 8192  # one product is 1.1 TFLOP: 1.4 ms on a fast card, 25 ms on a slow one
CPU_ROWS = 1024
COPIED_BYTES = 2**30
CPU_COPIED_BYTES = 2**26  # larger than the caches of most processors
_WARM_UP_S = 0.1  # until the clocks have risen
_TIMED_S = 0.2
_LEAST_RUNS = 3
_LAUNCHES = 8  # of a GPU before it is waited for: waiting takes as long as a small copy on some machines


@dataclass(frozen=True)
class CalibrateDevice:
    """The device.

    Attributes:
        kind: `cpu`, `cuda` or `rocm`.
        index: Of the device among those that the process sees, which is one.
    """

    kind: DeviceKind
    index: int = 0


def run(request: CalibrateDevice, context: TaskContext) -> Calibration:
    """Calibrate the device.

    Raises:
        EngineMissingError: On a GPU: this interpreter has no torch that sees it.
    """
    context.say("calibrating the device")
    return _processor() if request.kind == "cpu" else _gpu(request.index)


def _gpu(index: int) -> Calibration:
    if importlib.util.find_spec("torch") is None:
        raise EngineMissingError(f"calibrating a GPU needs torch, and {sys.executable} lacks it")
    import torch

    if not torch.cuda.is_available():
        raise EngineMissingError(f"calibrating a GPU needs a torch that sees it; torch {torch.__version__} does not")
    device = torch.device("cuda", index)
    left, right = (torch.randn(GPU_ROWS, GPU_ROWS, dtype=torch.float16, device=device) for _ in range(2))
    result = torch.empty_like(left)
    size = min(COPIED_BYTES, torch.cuda.get_device_properties(device).total_memory // 16)
    source = torch.ones(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)

    def several(start: Callable[[], object]) -> Callable[[], None]:
        def call() -> None:
            for _ in range(_LAUNCHES):
                start()
            torch.cuda.synchronize(device)

        return call

    product_s = median_s(several(lambda: torch.mm(left, right, out=result))) / _LAUNCHES
    copy_s = median_s(several(lambda: target.copy_(source))) / _LAUNCHES
    return Calibration(2 * GPU_ROWS**3 / product_s, 2 * size / copy_s, "float16", f"torch {torch.__version__}")


def _processor() -> Calibration:
    import numpy as np

    generator = np.random.default_rng(0)
    left, right = (generator.standard_normal((CPU_ROWS, CPU_ROWS), dtype=np.float32) for _ in range(2))
    result = np.empty_like(left)
    source = np.ones(CPU_COPIED_BYTES, dtype=np.uint8)
    target = np.empty_like(source)
    product_s = median_s(lambda: np.matmul(left, right, out=result))
    copy_s = median_s(lambda: np.copyto(target, source))
    return Calibration(2 * CPU_ROWS**3 / product_s, 2 * CPU_COPIED_BYTES / copy_s, "float32", f"numpy {np.__version__}")


def median_s(call: Callable[[], object]) -> float:
    """Return the median seconds of a call that returns when it has finished, once the device is warm."""
    begin_s = monotonic_s()
    while monotonic_s() - begin_s < _WARM_UP_S:
        call()
    times_s: list[float] = []
    begin_s = monotonic_s()
    while len(times_s) < _LEAST_RUNS or monotonic_s() - begin_s < _TIMED_S:
        start_s = monotonic_s()
        call()
        times_s.append(monotonic_s() - start_s)
    return statistics.median(times_s)
