"""ONNX Runtime on the CPU."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from pytest_sdperf.core.contracts import ComponentFacts, Engine, EngineOption, LoadRequest, Requirement, Runner
from pytest_sdperf.core.device import DeviceKind
from pytest_sdperf.engines import _ort, _ort_install, _ort_memory

# MultiHeadAttention has a CPU kernel, but not for packed inputs.
_WITHOUT_CPU_KERNEL = {
    "nhwc-conv": "NhwcConv",
    "group-norm": "GroupNorm and SkipGroupNorm",
    "bias-split-gelu": "BiasSplitGelu",
    "packed-qkv": "MultiHeadAttention with packed inputs",
    "bias-add": "BiasAdd",
}


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
        "graph_optimizations": _ort.GRAPH_OPTIMIZATIONS,
    }
    requirements = (Requirement("onnxruntime"),)
    extra = "cpu"
    resizes = True
    repeats_on = ("cpu",)

    def missing(self, device_kind: DeviceKind = "cpu") -> str | None:
        """Ask for any one build: the CPU's kernels are in all of them."""
        return _ort_install.missing_build("CPUExecutionProvider", self.install_command(device_kind))

    def supports(self, optimization: str) -> str | None:
        """Refuse the optimizations whose operators onnxruntime has for GPUs only."""
        operators = _WITHOUT_CPU_KERNEL.get(optimization)
        return operators and f"onnxruntime has no CPU kernel for {operators}, which {optimization} needs"

    def lowers(self, optimization: str) -> bool:
        """Prove these optimizations on primitives: weights, wiring and attributes of the rewrite are the same."""
        return optimization in _WITHOUT_CPU_KERNEL

    def default_optimizations(self, device_kind: str) -> tuple[str, ...]:
        """Return both precisions, the optimizations that every builder can make."""
        return ("fp32", "fp16")

    def versions(self) -> dict[str, str]:
        """Return the version of onnxruntime."""
        return _ort.versions()

    @contextmanager
    def load(self, request: LoadRequest) -> Iterator[Runner]:
        """Create a session on the CPU."""
        import onnxruntime

        options = _ort.session_options(onnxruntime, request.options)
        asked = request.options["threads"]
        if asked == "auto":
            asked = os.environ.get("OMP_NUM_THREADS", "")
        if asked.isdigit():
            options.intra_op_num_threads = int(asked)
        session = _ort.create_session(request, options=options, providers=["CPUExecutionProvider"])
        facts: ComponentFacts = {"threads": asked or "one per core"}
        if request.build.dtype == "float32":  # of halves onnxruntime does not say where it computes them as floats
            facts["accumulation"] = "float32"
        yield _ort.OrtRunner(session, request, memory=_ort_memory.OrtMemory("cpu"), facts=facts)
