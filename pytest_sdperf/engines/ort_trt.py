"""ONNX Runtime with TensorRT: its TensorRT execution provider, and the CUDA provider behind it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pytest_sdperf.core.contracts import EngineOption, LoadRequest, Runner
from pytest_sdperf.core.device import DeviceKind
from pytest_sdperf.core.interpreter import pip
from pytest_sdperf.engines import _ort, _ort_compilers, _ort_install, _ort_memory, _ort_nvidia, _tensorrt
from pytest_sdperf.engines._environment import variable

PROVIDER = "TensorrtExecutionProvider"
TF32_OVERRIDE = "NVIDIA_TF32_OVERRIDE"
_TENSORRT = re.compile(rb"nvinfer(?:\.so\.|_)(\d+)")
_CUDA = re.compile(rb"(?:cudart|cublas)(?:\.so\.|64_)(\d\d)")  # cudart64_110.dll is of CUDA 11
OLDEST = 10


class OrtTrtEngine(_ort_nvidia.NvidiaOrtEngine):
    """The TensorRT execution provider: engines are built once, and its timing cache is kept beside them.

    The precision comes with the graph. TensorRT 10 builds weakly typed networks here, in which half precision must be
    allowed as well.
    """

    name = "ort-trt"
    options = {
        "cuda_graph": EngineOption("off", "Capture the run once and replay it.", choices=("off", "on")),
        "builder_level": EngineOption("3", "How long TensorRT looks for fast kernels.", choices=tuple("012345")),
        "tf32": EngineOption("off", "Let fp32 products and convolutions use TF32.", choices=("off", "on")),
        "graph_optimizations": _ort.GRAPH_OPTIMIZATIONS,
    }
    fuses = True
    compiles = True

    def missing(self, device_kind: DeviceKind = "cuda") -> str | None:
        """Ask for the build for NVIDIA GPUs, and for the release of TensorRT that it links."""
        both = f"{self.install_command(device_kind)} && {_tensorrt.install_command(Linked().requirement)}"
        reason = _ort_install.missing_build(PROVIDER, both)
        build = _ort_install.find_build()
        if reason is not None or build is None:
            return reason
        linked = linked_by(build.library(PROVIDER))
        if linked.tensorrt < OLDEST:
            return (
                f"the {PROVIDER} of {build.title} links TensorRT {linked.tensorrt}, which is not supported; {OLDEST} "
                f"and later are, so type: {pip()} install --upgrade 'onnxruntime-gpu>=1.19'"
            )
        reason = _tensorrt.missing_release(linked.requirement)
        release = _tensorrt.find_release()
        if reason is not None or release is None or release.partition(".")[0] == str(linked.tensorrt):
            return reason
        return (
            f"TensorRT {release} is installed, and the {PROVIDER} of {build.title} links TensorRT {linked.tensorrt} "
            f"and loads with no other; type: {_tensorrt.install_command(linked.requirement)}"
        )

    def default_optimizations(self, device_kind: str) -> tuple[str, ...]:
        """Return half precision."""
        return ("fp16",)

    def versions(self) -> dict[str, str]:
        """Return the versions of onnxruntime and TensorRT."""
        return {**super().versions(), "tensorrt": _tensorrt.find_release() or "unknown"}

    @contextmanager
    def load(self, request: LoadRequest) -> Iterator[Runner]:
        """Create a session whose engines come from the folder of the request, or are built into it."""
        tf32 = request.options["tf32"] == "on"
        # The CUDA provider runs what TensorRT leaves, which may be attention in an external graph.
        allowed = tf32 or _ort_nvidia.needs_tf32(request.build.dtype)
        options = {"device_id": str(request.device_index), "use_tf32": "1" if allowed else "0"}
        providers = (PROVIDER, provider_options(request)), ("CUDAExecutionProvider", options)
        # This provider has no such option, and TensorRT uses TF32 unless it is forbidden in this way. The libraries
        # keep what they read first: it has to be there before they are loaded, and stays while the session runs.
        with variable(TF32_OVERRIDE, None if tf32 else "0"):
            _ort_nvidia.import_libraries()
            _tensorrt.load_libraries()
            session = _ort_nvidia.session(request, *providers)
            facts = _ort_compilers.partitions(session, PROVIDER)
            yield _ort.OrtRunner(session, request, memory=_ort_memory.cuda_memory(request.device_index), facts=facts)


def provider_options(request: LoadRequest) -> dict[str, str]:
    """Return the options of the provider for one component."""
    folder = str(request.work_dir)
    options = {
        "device_id": str(request.device_index),
        "trt_fp16_enable": "1" if request.build.dtype == "float16" else "0",
        "trt_cuda_graph_enable": "1" if request.options["cuda_graph"] == "on" else "0",
        "trt_builder_optimization_level": request.options["builder_level"],
        "trt_engine_cache_enable": "1",
        "trt_engine_cache_path": folder,
        "trt_timing_cache_enable": "1",
        "trt_timing_cache_path": folder,
    }
    if request.shapes == "dynamic":
        for place, name in enumerate(("min", "opt", "max")):
            shapes = (
                f"{input_name}:{'x'.join(map(str, shape[place]))}"
                for input_name, shape in _tensorrt.ranges(request).items()
            )
            options[f"trt_profile_{name}_shapes"] = ",".join(shapes)
    return options


@dataclass(frozen=True)
class Linked:
    """Major versions that the provider's library links; unless it says otherwise, those of onnxruntime-gpu 1.31.

    Attributes:
        tensorrt: Of TensorRT.
        cuda: Of CUDA; None if it does not say it.
    """

    tensorrt: int = 10
    cuda: int | None = None

    @property
    def requirement(self) -> str:
        """What to install for it."""
        return _tensorrt.requirement(f"<{self.tensorrt + 1}", cuda=self.cuda)


def linked_by(library: Path | None) -> Linked:
    """Return what the provider's library links."""
    content = b"" if library is None else library.read_bytes()
    asked = {"tensorrt": _TENSORRT.search(content), "cuda": _CUDA.search(content)}
    return Linked(**{name: int(found.group(1)) for name, found in asked.items() if found})
