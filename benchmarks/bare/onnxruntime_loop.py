"""A loop over one ONNX file, as anybody would write it: prints the milliseconds of every call as JSON.

python benchmarks/bare/onnxruntime_loop.py model.onnx inputs.npz CUDAExecutionProvider '{"enable_cuda_graph": "1"}'
"""

from __future__ import annotations

import contextlib
import json
import sys
import time

import numpy as np

WARM_UP, TIMED = 8, 40

with contextlib.suppress(ImportError):
    import torch  # noqa: F401 - brings the CUDA libraries of pip installations
import onnxruntime

path, inputs, provider, options = sys.argv[1:]
device = "cpu" if provider == "CPUExecutionProvider" else "cuda"
session = onnxruntime.InferenceSession(path, providers=[(provider, json.loads(options)), "CPUExecutionProvider"])
arrays = np.load(inputs)
types = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(int64)": np.int64}
binding = session.io_binding()
for node in session.get_inputs():
    array = np.ascontiguousarray(arrays[node.name], dtype=types[node.type])
    binding.bind_ortvalue_input(node.name, onnxruntime.OrtValue.ortvalue_from_numpy(array, device, 0))
for node in session.get_outputs():
    output = onnxruntime.OrtValue.ortvalue_from_shape_and_type(node.shape, types[node.type], device, 0)
    binding.bind_ortvalue_output(node.name, output)
milliseconds = []
for _ in range(WARM_UP + TIMED):
    start_s = time.perf_counter()
    session.run_with_iobinding(binding)
    milliseconds.append((time.perf_counter() - start_s) * 1e3)
print(json.dumps(milliseconds[WARM_UP:]))
