"""ONNX Runtime with TensorRT: its TensorRT execution provider, and the CUDA provider behind it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pytest_sdperf.contracts import EngineOption, LoadRequest, Runner
from pytest_sdperf.device import DeviceKind
from pytest_sdperf.engines import _ort, _ort_compilers, _ort_install, _ort_memory, _ort_nvidia, _tensorrt

PROVIDER = "TensorrtExecutionProvider"
_LINKED = re.compile(rb"nvinfer(?:\.so\.|_)(\d+)")
_KNOWN_MAJOR = 10  # that of onnxruntime-gpu 1.31


class OrtTrtEngine(_ort_nvidia.NvidiaOrtEngine):
    """The TensorRT execution provider: engines are built once, and its timing cache is kept beside them.

    The precision comes with the graph. TensorRT 10 builds weakly typed networks here, in which half precision must be
    allowed as well.
    """

    name = "ort-trt"
    options = {
        "cuda_graph": EngineOption("off", "Capture the run once and replay it.", choices=("off", "on")),
        "builder_level": EngineOption("3", "How long TensorRT looks for fast kernels.", choices=tuple("012345")),
        "graph_optimizations": _ort.GRAPH_OPTIMIZATIONS,
    }
    fuses = True
    compiles = True

    def missing(self, device_kind: DeviceKind = "cuda") -> str | None:
        """Ask for the build for NVIDIA GPUs, and for the release of TensorRT that it links."""
        both = f"{self.install_command(device_kind)} && {_tensorrt.install_command(_requirement(_KNOWN_MAJOR))}"
        reason = _ort_install.missing_build(PROVIDER, both)
        build = _ort_install.find_build()
        if reason is not None or build is None:
            return reason
        major = linked_major(build.library(PROVIDER))
        requirement = _requirement(major)
        reason = _tensorrt.missing_release(requirement)
        release = _tensorrt.find_release()
        if reason is not None or release is None or release.partition(".")[0] == str(major):
            return reason
        return (
            f"TensorRT {release} is installed, and the {PROVIDER} of {build.title} links TensorRT {major} and loads "
            f"with no other; type: {_tensorrt.install_command(requirement)}"
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
        _ort_nvidia.import_libraries()
        _tensorrt.load_libraries()
        index = str(request.device_index)
        # The CUDA provider runs what TensorRT leaves, which may be attention in a given graph.
        session = _ort_nvidia.session(
            request, (PROVIDER, provider_options(request)), ("CUDAExecutionProvider", {"device_id": index})
        )
        facts = _ort_compilers.partitions(session, PROVIDER)
        yield _ort.OrtRunner(session, request, memory=_ort_memory.cuda_memory(request.device_index), facts=facts)


def provider_options(request: LoadRequest) -> dict[str, str]:
    """Return the options of the provider for one component."""
    folder = str(request.work_dir)
    options = {
        "device_id": str(request.device_index),
        "trt_fp16_enable": "1" if request.build.floating == "float16" else "0",
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


def _requirement(major: int) -> str:
    """Return what to install for a provider that links a major version of TensorRT."""
    return f"tensorrt-cu13<{major + 1}"


def linked_major(library: Path | None) -> int:
    """Return the major version of TensorRT that the provider's library links."""
    found = None if library is None else _LINKED.search(library.read_bytes())
    return int(found.group(1)) if found else _KNOWN_MAJOR
