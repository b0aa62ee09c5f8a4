"""Our own plug-ins, registered through the public hook like anyone's.

Imported by the suite and by every worker, so everything below imports the standard library only.

PYTEST_DONT_REWRITE: it asserts nothing that a user should see, and may be imported before pytest loads it.
"""

from __future__ import annotations

from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.devices.amdsmi import AmdsmiProbe
from pytest_sdperf.devices.cpu import CpuProbe
from pytest_sdperf.devices.nvml import NvmlProbe
from pytest_sdperf.engines.onediff import OneDiffEngine
from pytest_sdperf.engines.ort_cpu import OrtCpuEngine
from pytest_sdperf.engines.ort_cuda import OrtCudaEngine
from pytest_sdperf.engines.ort_migraphx import OrtMigraphxEngine
from pytest_sdperf.engines.ort_rocm import OrtRocmEngine
from pytest_sdperf.engines.ort_trt import OrtTrtEngine
from pytest_sdperf.engines.tensorrt import TensorRtEngine
from pytest_sdperf.engines.torch_compile import TorchCompileEngine
from pytest_sdperf.engines.torch_eager import TorchEngine
from pytest_sdperf.fusing.optimizations import LADDER
from pytest_sdperf.models import sd15, sd21, sdxl, shapes


def pytest_sdperf_register(catalog: Catalog) -> None:
    """Register the devices, models, optimizations and engines of this project."""
    for probe in (NvmlProbe(), AmdsmiProbe(), CpuProbe()):
        catalog.add_device_probe(probe)
    for model in (*sd15.MODELS, *sd21.MODELS, *sdxl.MODELS, *shapes.MODELS):
        catalog.add_model(model)
    for optimization in LADDER:
        catalog.add_optimization(optimization)
    for engine in (
        TorchEngine(),
        TorchCompileEngine(),
        OrtCpuEngine(),
        OrtCudaEngine(),
        OrtTrtEngine(),
        TensorRtEngine(),
        OrtMigraphxEngine(),
        OrtRocmEngine(),
        OneDiffEngine(),
    ):
        catalog.add_engine(engine)
