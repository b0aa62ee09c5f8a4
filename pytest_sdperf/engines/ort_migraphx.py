"""ONNX Runtime with MIGraphX, AMD's graph compiler."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pytest_sdperf.contracts import Engine, EngineOption, LoadRequest, Model, Requirement, Runner
from pytest_sdperf.device import DeviceKind
from pytest_sdperf.engines import _ort, _ort_compilers, _rocm

PROVIDER = "MIGraphXExecutionProvider"


class OrtMigraphxEngine(Engine):
    """The MIGraphX execution provider: it fuses for itself, and compiles once per graph and shapes.

    The precision comes with the graph. Compiling takes minutes, and much longer with `exhaustive_tune=on`.
    """

    name = "ort-migraphx"
    consumes = "onnx"
    device_kinds = ("rocm",)
    options = {
        "quantize": EngineOption(
            "off", "Let MIGraphX convert to fp16 what the graph computes in fp32.", choices=("off", "fp16")
        ),
        "exhaustive_tune": EngineOption("off", "Try every kernel while compiling.", choices=("off", "on")),
        "graph_optimizations": _ort.GRAPH_OPTIMIZATIONS,
    }
    requirements = (Requirement("onnxruntime", package="onnxruntime-migraphx"), Requirement("torch"))
    extra = "rocm"
    fuses = True
    compiles = True

    def missing(self, device_kind: DeviceKind = "rocm") -> str | None:
        """Ask for the build with MIGraphX, torch for ROCm, and MIGraphX itself."""
        reason = _rocm.missing_provider(PROVIDER, "onnxruntime-migraphx")
        if reason is not None or _rocm.has_library("migraphx_c"):
            return reason
        return (
            f"the {PROVIDER} loads libmigraphx_c, which is not on this machine; install ROCm (onnxruntime-migraphx "
            "1.27 is built for 7.2) and type: sudo apt install migraphx"
        )

    def default_optimizations(self, device_kind: str) -> tuple[str, ...]:
        """Return half precision."""
        return ("fp16",)

    def preload(self, model: Model, component: str) -> None:
        """Import torch first: its libraries of ROCm are those that MIGraphX shall find."""
        import onnxruntime  # noqa: F401
        import torch  # noqa: F401

    def versions(self) -> dict[str, str]:
        """Return the versions of onnxruntime, and of torch with the ROCm that it was built for."""
        import torch

        return {**_ort.versions(), "torch": str(torch.__version__)}

    @contextmanager
    def load(self, request: LoadRequest) -> Iterator[Runner]:
        """Create a session that keeps what it compiles in the folder of the request."""
        import onnxruntime
        import torch  # noqa: F401

        provider = {
            "device_id": str(request.device_index),
            "migraphx_fp16_enable": "1" if request.options["quantize"] == "fp16" else "0",
            "migraphx_exhaustive_tune": "1" if request.options["exhaustive_tune"] == "on" else "0",
            "migraphx_model_cache_dir": str(request.work_dir),
        }
        session = _ort.create_session(
            request,
            options=_ort.session_options(onnxruntime, request.options),
            providers=[(PROVIDER, provider), "CPUExecutionProvider"],
        )
        facts = _ort_compilers.partitions(session, PROVIDER)
        yield _ort.OrtRunner(session, request, memory=_rocm.memory(request.device_index), facts=facts)
