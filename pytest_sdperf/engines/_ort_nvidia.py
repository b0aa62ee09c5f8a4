"""What the engines have in common that run ONNX Runtime on an NVIDIA GPU."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from pytest_sdperf.core.contracts import Engine, LoadRequest, Model, Requirement
from pytest_sdperf.core.device import DeviceKind
from pytest_sdperf.core.errors import UnsupportedGraphError
from pytest_sdperf.engines import _ort, _ort_overflow

Provider = tuple[str, Mapping[str, str]]


class NvidiaOrtEngine(Engine):
    """ONNX Runtime with providers for an NVIDIA GPU."""

    consumes = "onnx"
    device_kinds: tuple[DeviceKind, ...] = ("cuda",)
    requirements = (Requirement("onnxruntime", package="onnxruntime-gpu"),)
    extra = "cuda"

    def preload(self, model: Model, component: str) -> None:
        """Import torch too, before the process has its turn: that takes several times as long as creating a session."""
        import_libraries()
        super().preload(model, component)

    def versions(self) -> dict[str, str]:
        """Return the versions of onnxruntime and of the CUDA libraries that it has loaded."""
        return _ort.versions()


def needs_tf32(dtype: str) -> bool:
    """Whether the CUDA provider has to be allowed TF32 to compute a build as it is meant to be.

    `use_tf32=0` takes every kernel with tensor cores from cuDNN's choice, whatever the type of the convolution
    (core/providers/cuda/nn/conv.cc, `deselect_numeric_notes`); half precision is then multiplied 14 to 43 times more
    slowly, as measured on an H200. The price: operators that such a build keeps in float32 may use TF32.

    Args:
        dtype: dtype name of the build.
    """
    return dtype in ("float16", "bfloat16")


def import_libraries() -> None:
    """Import torch, which brings the CUDA libraries of pip installations; a system-wide CUDA works without it."""
    with suppress(ImportError):
        import torch  # noqa: F401


def session(request: LoadRequest, *providers: Provider) -> Any:
    """Create a session on the GPU, with the CPU provider behind the others for what has no kernel there.

    Raises:
        UnsupportedGraphError: The graph holds what the kernels of the CUDA provider cannot compute.
        EngineMissingError: ONNX Runtime fell back to another provider.
    """
    if request.build.limits:
        raise UnsupportedGraphError(request.component, request.build.limits)
    import_libraries()
    import onnxruntime

    with _ort_overflow.avoided(request):
        return _ort.create_session(
            request,
            options=_ort.session_options(onnxruntime, request.options),
            providers=[*((name, dict(options)) for name, options in providers), "CPUExecutionProvider"],
        )
