"""An ONNX Runtime session on a GPU as its Python binding shows it: it reads and writes the addresses it was given.

The addresses are those of CPU tensors, so that it can be executed anywhere. With `cuda_graph` it behaves as the CUDA
provider does: the first run with a graph number (0 if its options name none) is captured, and every later run with that
number replays it onto the addresses of the first. The number -1 says that no graph is to be used.
"""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import numpy as np

SHAPES = {"sample": (2, 4), "timestep": (1,), "out_sample": (2, 4)}
TYPES = {"sample": "tensor(float16)", "timestep": "tensor(float)", "out_sample": "tensor(float16)"}


def memory_at(address, shape, dtype):
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return np.frombuffer((ctypes.c_char * size).from_address(address), dtype=dtype).reshape(shape)


class FakeBinding:
    def __init__(self):
        self.addresses = {}
        self.log = []

    def bind_input(self, name, *place):
        device_type, device_id, element_type, shape, buffer_ptr = place
        assert (device_type, device_id) == ("cuda", 3)
        self.addresses[name] = (buffer_ptr, tuple(shape), element_type)
        self.log.append((name, buffer_ptr))

    bind_output = bind_input

    def synchronize_outputs(self):
        self.log.append("synchronized")


class FakePart:
    """A part of a graph and the provider that it was assigned to."""

    def __init__(self, ep_name, *nodes):
        self.ep_name = ep_name
        self._nodes = [SimpleNamespace(domain=domain, op_type=op_type, name=name) for domain, op_type, name in nodes]

    def get_nodes(self):
        return self._nodes


class FakeSession:
    """Computes `out_sample = sample * 2 + timestep`."""

    def __init__(self, *, cuda_graph=False):
        self.cuda_graph = cuda_graph
        self.captured = {}
        self.bindings = []
        self.runs = []

    def io_binding(self):
        self.bindings.append(FakeBinding())
        return self.bindings[-1]

    def get_inputs(self):
        return [SimpleNamespace(name=name, type=TYPES[name]) for name in ("sample", "timestep")]

    def get_outputs(self):
        return [SimpleNamespace(name="out_sample", type=TYPES["out_sample"])]

    def get_providers(self):
        return ["CUDAExecutionProvider", "CPUExecutionProvider"]

    def run_with_iobinding(self, binding, run_options=None):
        addresses = dict(binding.addresses)
        number = "0" if run_options is None else run_options.get_run_config_entry("gpu_graph_id")
        self.runs.append("plain" if number == "-1" else "usual")
        if self.cuda_graph and number != "-1":
            addresses = self.captured.setdefault(number, addresses)
        place = {name: memory_at(*where) for name, where in addresses.items()}
        place["out_sample"][...] = place["sample"] * 2 + place["timestep"].astype("float16")
