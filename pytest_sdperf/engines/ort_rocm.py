"""ONNX Runtime with kernels for AMD GPUs: the ROCm execution provider, which ended with onnxruntime 1.22."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pytest_sdperf.core.contracts import ComponentFacts, EngineOption, LoadRequest, Requirement, Runner
from pytest_sdperf.core.device import DeviceKind
from pytest_sdperf.engines import _ort, _rocm

PROVIDER = "ROCMExecutionProvider"
_PACKAGE = "onnxruntime-rocm<1.23"


class OrtRocmEngine(_rocm.RocmEngine):
    """The ROCm execution provider, which has kernels of its own for the operators of every optimization.

    Tuning is always on: without it some operators have no kernel that runs. What it found is kept, so that only one
    process pays for it.
    """

    name = "ort-rocm"
    options = {
        "cuda_graph": EngineOption(
            "off", "Capture the run once, as a HIP graph, and replay it.", choices=("off", "on")
        ),
        "graph_optimizations": _ort.GRAPH_OPTIMIZATIONS,
    }
    requirements = (Requirement("onnxruntime", package="onnxruntime-rocm"), Requirement("torch"))
    compiles = True
    resizes = True

    def missing(self, device_kind: DeviceKind = "rocm") -> str | None:
        """Ask for the last build that has the provider, and for torch for ROCm."""
        return _rocm.missing_provider(PROVIDER, _PACKAGE)

    def default_optimizations(self, device_kind: str) -> tuple[str, ...]:
        """Return the last optimization; as in the published ladder of an MI250X without packed attention."""
        return ("bias-add",)

    @contextmanager
    def load(self, request: LoadRequest) -> Iterator[Runner]:
        """Create a session that knows the tuning of earlier processes; leave what it found in the folder."""
        provider = {
            "device_id": str(request.device_index),
            "tunable_op_enable": "1",
            "tunable_op_tuning_enable": "1",
            "enable_hip_graph": "1" if request.options["cuda_graph"] == "on" else "0",
        }
        session = _rocm.session(request, PROVIDER, provider)
        tuning = request.work_dir / f"{request.component}-tuning.json"
        refused = _take_over(session, tuning) if tuning.is_file() else "nothing was kept"
        facts: ComponentFacts = {"tuning": f"in this process: {refused}" if refused else "from before"}
        yield _ort.OrtRunner(session, request, memory=_rocm.memory(request.device_index), facts=facts)
        if refused:
            tuning.unlink(missing_ok=True)  # it may be a link to what other processes share
            tuning.write_text(json.dumps(session.get_tuning_results()), encoding="utf-8")


def _take_over(session: Any, tuning: Path) -> str:
    """Give a session what an earlier process found out; return why it refuses that, or nothing.

    It refuses what was found with another version, card or library, and then tunes for itself.
    """
    try:
        session.set_tuning_results(json.loads(tuning.read_text(encoding="utf-8")), error_on_invalid=True)
    except (RuntimeError, ValueError) as error:
        return f"what was kept is refused ({str(error).rstrip('.')})"
    return ""
