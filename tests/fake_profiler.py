"""`torch.profiler` on a GPU as its users see it: a context manager that writes a Chrome trace afterwards.

Events have the categories and fields of torch 2.11 to 2.13 on CUDA 13: what ran on the device (`kernel`, `gpu_memcpy`,
`gpu_memset`), calls of the runtime (`cuda_runtime`) and of the driver (`cuda_driver`), and annotations.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch

FLASH = "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 64, 4, false, false>>"
GEMM = "nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_TNT"
UNKNOWN = "acme_kernel"


def event(category, name, dur=10.0, ts=1.0, **args):
    return {
        "ph": "X",
        "cat": category,
        "name": name,
        "pid": 0,
        "tid": 7,
        "ts": ts,
        "dur": dur,
        "args": {"correlation": 1, "stream": 7, **args},
    }


def one_after_another(events):
    """Give events the times of a stream that is never idle."""
    now, placed = 1.0, []
    for one in events:
        placed.append({**one, "ts": now})
        now += one["dur"] if one["cat"] in ("kernel", "gpu_memcpy", "gpu_memset") else 0.0
    return placed


def launched(*names):
    """Return the events of kernels that the host launches one by one."""
    return [one for name in names for one in (event("cuda_runtime", "cudaLaunchKernel", 4.0), event("kernel", name))]


def replayed(*names):
    """Return the events of a captured graph that is replayed."""
    return [
        event("cuda_runtime", "cudaGraphLaunch", 300.0),
        *(event("kernel", name, **{"graph id": 5, "graph node id": number}) for number, name in enumerate(names)),
    ]


class FakeProfile:
    """Records `events` whenever the watched code says that it made a call."""

    def __init__(self, calls):
        self._calls = calls

    def __call__(self, *, activities):
        assert activities == [torch.profiler.ProfilerActivity.CUDA]
        return self

    def __enter__(self):
        self._calls.clear()
        return self

    def __exit__(self, *error):
        return None

    def export_chrome_trace(self, path):
        boundary = {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": 2.0}
        annotation = event("gpu_user_annotation", "ProfilerStep#0", 1e6)
        events = [one for call in self._calls for one in call]
        if len({one["ts"] for one in events}) <= 1:
            events = one_after_another(events)
        trace = {"schemaVersion": 1, "traceEvents": [annotation, *events, boundary]}
        Path(path).write_text(json.dumps(trace), encoding="utf-8")
