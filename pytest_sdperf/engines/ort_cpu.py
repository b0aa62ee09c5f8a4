"""ONNX Runtime on the CPU."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from pytest_sdperf.contracts import Engine, EngineOption, LoadRequest, Requirement, Runner
from pytest_sdperf.engines import _ort


class OrtCpuEngine(Engine):
    """The CPU execution provider.

    Its number of threads follows `OMP_NUM_THREADS` as torch's does, so that both engines are limited alike; without it
    onnxruntime takes one thread per core.
    """

    name = "ort-cpu"
    consumes = "onnx"
    device_kinds = ("cpu",)
    options = {
        "threads": EngineOption("auto", "Threads of one operator: a number, or auto.", pattern=r"auto|[1-9]\d*"),
    }
    requirements = (Requirement("onnxruntime", "pip install 'pytest-sdperf[cpu]'"),)
    extra = "cpu"

    def default_optimizations(self, device_kind: str) -> tuple[str, ...]:
        """Return both precisions: they have CPU kernels, unlike the higher rungs' operators."""
        return ("fp32", "fp16")

    def versions(self) -> dict[str, str]:
        """Return the version of onnxruntime."""
        return _ort.versions()

    @contextmanager
    def load(self, request: LoadRequest) -> Iterator[Runner]:
        """Create a session on the CPU."""
        import onnxruntime

        options = _ort.session_options(onnxruntime)
        asked = request.options["threads"]
        if asked == "auto":
            asked = os.environ.get("OMP_NUM_THREADS", "")
        if asked.isdigit():
            options.intra_op_num_threads = int(asked)
        session = _ort.create_session(request, options=options, providers=["CPUExecutionProvider"])
        facts = {"threads": asked or "one per core"}
        yield _ort.OrtRunner(session, request, device="cpu", facts=facts)
