from __future__ import annotations

import subprocess
import sys

CODE = """
import sys
from pytest_sdperf.devices.amdsmi import AmdsmiProbe
from pytest_sdperf.devices.cpu import CpuProbe
from pytest_sdperf.devices.nvml import NvmlProbe
print(sorted({"torch", "pynvml", "amdsmi", "psutil"} & set(sys.modules)))
for probe in (NvmlProbe(), AmdsmiProbe(), CpuProbe()):
    try:
        probe.find()
    except Exception as error:
        pass
print(sorted({"torch", "onnxruntime"} & set(sys.modules)))
"""


def test_probes_import_vendor_libraries_when_asked_and_torch_never():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n[]\n"
