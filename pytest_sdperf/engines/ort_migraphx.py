"""ONNX Runtime with MIGraphX, AMD's graph compiler."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pytest_sdperf.core.contracts import EngineOption, LoadRequest, Requirement, Runner
from pytest_sdperf.core.device import DeviceKind
from pytest_sdperf.engines import _ort, _ort_compilers, _rocm

PROVIDER = "MIGraphXExecutionProvider"


class OrtMigraphxEngine(_rocm.RocmEngine):
    """The MIGraphX execution provider: it fuses for itself, and compiles once per graph and shapes.

    The precision comes with the graph. Compiling takes minutes, and much longer with `exhaustive_tune=on`.
    """

    name = "ort-migraphx"
    options = {
        "quantize": EngineOption(
            "off", "Let MIGraphX convert to fp16 what the graph computes in fp32.", choices=("off", "fp16")
        ),
        "exhaustive_tune": EngineOption("off", "Try every kernel while compiling.", choices=("off", "on")),
        "graph_optimizations": _ort.GRAPH_OPTIMIZATIONS,
    }
    requirements = (Requirement("onnxruntime", package="onnxruntime-migraphx"), Requirement("torch"))
    fuses = True
    compiles = True
    resizes = True

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

    def versions(self) -> dict[str, str]:
        """Return the version of MIGraphX too, which comes with the system and compiles everything."""
        return {**super().versions(), **_rocm.library_versions("migraphx"), **_rocm.library_versions("migraphx_c")}

    @contextmanager
    def load(self, request: LoadRequest) -> Iterator[Runner]:
        """Create a session that keeps what it compiles in the folder of the request."""
        provider = {
            "device_id": str(request.device_index),
            "migraphx_fp16_enable": "1" if request.options["quantize"] == "fp16" else "0",
            "migraphx_exhaustive_tune": "1" if request.options["exhaustive_tune"] == "on" else "0",
            "migraphx_model_cache_dir": str(request.work_dir),
        }
        session = _rocm.session(request, PROVIDER, provider)
        facts = _ort_compilers.partitions(session, PROVIDER)
        yield _ort.OrtRunner(session, request, memory=_rocm.memory(request.device_index), facts=facts)
