"""ONNX Runtime on an NVIDIA GPU."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pytest_sdperf.core.contracts import ComponentFacts, EngineOption, LoadRequest, Runner
from pytest_sdperf.core.cuda_kernels import without_kernels
from pytest_sdperf.core.device import DeviceKind
from pytest_sdperf.core.interpreter import pip
from pytest_sdperf.core.model import Model
from pytest_sdperf.engines import _ort, _ort_install, _ort_memory, _ort_nvidia

# Value of the option -> bits of onnxruntime::contrib::attention::AttentionBackend
# (contrib_ops/cpu/bert/attention_common.h). 0 is ONNX Runtime's own choice; where a bit cannot serve, it takes math.
SDPA = {"auto": 0, "cudnn": 8, "flash": 1, "efficient": 2, "math": 16}

# Bit 1 of its value lets cuBLAS add up products of float16 in float16 (core/providers/cuda/cuda_common.cc).
GEMM_OPTIONS = "ORT_CUDA_GEMM_OPTIONS"


class OrtCudaEngine(_ort_nvidia.NvidiaOrtEngine):
    """The CUDA execution provider with IO binding: inputs and outputs stay on the GPU."""

    name = "ort-cuda"
    options = {
        "cuda_graph": EngineOption("off", "Capture the run once and replay it.", choices=("off", "on")),
        "sdpa": EngineOption("auto", "Kernel of fused attention; auto lets ONNX Runtime choose.", choices=tuple(SDPA)),
        "conv_search": EngineOption(
            "exhaustive",
            "What cuDNN's choice of convolution kernels rests on: its mode B, A or fallback; none of them measures.",
            choices=("exhaustive", "heuristic", "default"),
        ),
        "conv_bias": EngineOption("off", "Let cuDNN add the bias of a convolution.", choices=("off", "on")),
        "conv_workspace": EngineOption(
            "max", "Memory of a convolution algorithm: what the fastest wants, or 32 MB.", choices=("max", "limited")
        ),
        "arena": EngineOption(
            "power-of-two", "By how much the memory arena grows.", choices=("power-of-two", "same-as-requested")
        ),
        "stream": EngineOption(
            "own", "CUDA stream: the session's own, or one shared with torch.", choices=("own", "torch")
        ),
        "tf32": EngineOption(
            "auto",
            "Let fp32 products and convolutions use TF32; auto: where the build is half precision, whose convolutions "
            "ONNX Runtime keeps from tensor cores otherwise.",
            choices=("auto", "off", "on"),
        ),
        "graph_optimizations": _ort.GRAPH_OPTIMIZATIONS,
    }
    resizes = True

    def missing(self, device_kind: DeviceKind = "cuda") -> str | None:
        """Ask for the build for NVIDIA GPUs, alone in its environment."""
        return _ort_install.missing_build("CUDAExecutionProvider", self.install_command(device_kind))

    def refuses_options(self, options: Mapping[str, str], device_kind: DeviceKind) -> str | None:
        """Refuse a stream of torch where torch is not."""
        if options["stream"] == "torch" and importlib.util.find_spec("torch") is None:
            return (
                "stream=torch shares a stream with package 'torch', which is not installed; "
                f"type: {pip()} install torch, or {self.name}:stream=own"
            )
        return None

    def default_optimizations(self, device_kind: str) -> tuple[str, ...]:
        """Return the last optimization."""
        return ("bias-add",)

    def without_kernels(self, model: Model) -> frozenset[str]:
        """Return what narrow models have no kernels for."""
        return without_kernels(model)

    @contextmanager
    def load(self, request: LoadRequest) -> Iterator[Runner]:
        """Create a session on the GPU, with the CPU provider behind it for what has no CUDA kernel."""
        provider = provider_options(request.options, request.device_index, dtype=request.build.dtype)
        memory = _ort_memory.cuda_memory(request.device_index)
        if request.options["stream"] == "torch":
            memory = _ort_memory.shared_stream_memory(request.device_index)
            provider["user_compute_stream"] = str(memory.stream.cuda_stream)
        session = _ort_nvidia.session(request, ("CUDAExecutionProvider", provider))
        asked = request.options["sdpa"]
        facts: ComponentFacts = {
            "conv_search": request.options["conv_search"],
            "tf32": "on" if provider["use_tf32"] == "1" else "off",
        }
        if asked != "auto":
            facts["attention"] = asked
        yield _ort.OrtRunner(session, request, memory=memory, facts={**facts, **accumulation(request)})


def accumulation(request: LoadRequest) -> ComponentFacts:
    """Return in which type cuBLAS accumulates products for onnxruntime, as a fact: float32 but by its variable."""
    half = request.build.dtype == "float16" and _number(os.environ.get(GEMM_OPTIONS, "0")) & 1
    return {"accumulation": "float16" if half else "float32"}


def _number(text: str) -> int:
    """Return the integer that a text is; 0 for any other one, which onnxruntime refuses by itself."""
    return int(text) if text.strip().isdecimal() else 0


def provider_options(options: Mapping[str, str], device_index: int, *, dtype: str) -> dict[str, str]:
    """Return the options of the CUDA provider, under the names that it has for them.

    What is at ONNX Runtime's own default is left out where an older one does not know the name: it refuses those.

    Args:
        options: The value of every option of the engine.
        device_index: The GPU.
        dtype: dtype name of the build.
    """
    tf32 = options["tf32"] == "on" or (options["tf32"] == "auto" and _ort_nvidia.needs_tf32(dtype))
    found = {
        "device_id": str(device_index),
        "enable_cuda_graph": "1" if options["cuda_graph"] == "on" else "0",
        "cudnn_conv_algo_search": options["conv_search"].upper(),
        "use_tf32": "1" if tf32 else "0",
    }
    if options["sdpa"] != "auto":
        found["sdpa_kernel"] = str(SDPA[options["sdpa"]])
    if options["conv_bias"] == "on":
        found["fuse_conv_bias"] = "1"
    if options["conv_workspace"] == "limited":
        found["cudnn_conv_use_max_workspace"] = "0"
    if options["arena"] == "same-as-requested":
        found["arena_extend_strategy"] = "kSameAsRequested"
    return found
