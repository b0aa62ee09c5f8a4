"""ONNX Runtime on an NVIDIA GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pytest_sdperf.contracts import Engine, EngineOption, LoadRequest, Requirement, Runner
from pytest_sdperf.device import DeviceKind
from pytest_sdperf.engines import _ort, _ort_install, _ort_memory
from pytest_sdperf.errors import UnsupportedGraphError


class OrtCudaEngine(Engine):
    """The CUDA execution provider with IO binding: inputs and outputs stay on the GPU."""

    name = "ort-cuda"
    consumes = "onnx"
    device_kinds = ("cuda",)
    options = {
        "cuda_graph": EngineOption("off", "Capture the run once and replay it.", choices=("off", "on")),
        "conv_search": EngineOption(
            "exhaustive", "How cuDNN chooses convolution algorithms.", choices=("exhaustive", "heuristic", "default")
        ),
        "tf32": EngineOption("off", "Let fp32 matrix products use TF32.", choices=("off", "on")),
        "graph_optimizations": _ort.GRAPH_OPTIMIZATIONS,
    }
    requirements = (Requirement("onnxruntime", package="onnxruntime-gpu"),)
    extra = "cuda"

    def missing(self, device_kind: DeviceKind = "cuda") -> str | None:
        """Ask for the build for NVIDIA GPUs, alone in its environment."""
        return _ort_install.missing_build("CUDAExecutionProvider", self.install_command(device_kind))

    def default_optimizations(self, device_kind: str) -> tuple[str, ...]:
        """Return the last rung."""
        return ("bias-add",)

    def versions(self) -> dict[str, str]:
        """Return the version of onnxruntime."""
        return _ort.versions()

    @contextmanager
    def load(self, request: LoadRequest) -> Iterator[Runner]:
        """Create a session on the GPU, with the CPU provider behind it for what has no CUDA kernel."""
        if request.build.limits:
            raise UnsupportedGraphError(request.component, request.build.limits)
        # torch brings the CUDA and cuDNN libraries of pip installations; a system-wide CUDA works without it.
        with suppress(ImportError):
            import torch  # noqa: F401
        import onnxruntime

        provider = {
            "device_id": str(request.device_index),
            "enable_cuda_graph": "1" if request.options["cuda_graph"] == "on" else "0",
            "cudnn_conv_algo_search": request.options["conv_search"].upper(),
            "use_tf32": "1" if request.options["tf32"] == "on" else "0",
        }
        session = _ort.create_session(
            request,
            options=_ort.session_options(onnxruntime, request.options),
            providers=[("CUDAExecutionProvider", provider), "CPUExecutionProvider"],
        )
        yield _ort.OrtRunner(session, request, memory=_ort_memory.cuda_memory(request.device_index), facts={})
