"""What executes a reference: the same case as plain as can be, and not altered."""

from __future__ import annotations

import dataclasses
from typing import Any

from pytest_sdperf.builds.execution.runner import CaseRunner
from pytest_sdperf.core import ladder
from pytest_sdperf.core.settings import EngineRequest


def plain_runner(runner: CaseRunner, **fields: Any) -> CaseRunner:
    """Return what executes the same case with plain torch in float32, but for some fields of the case."""
    return _derived(runner, "torch", optimization="fp32", exporter="", opset=0, shapes="", fp32_ops="", **fields)


def graph_runner(runner: CaseRunner, *, optimizations: str) -> CaseRunner:
    """Return what executes the same case with a graph in ONNX Runtime, whose own `optimizations` are off or all on."""
    engine = "ort-cuda" if runner.context.device.kind == "cuda" else "ort-cpu"
    options = (("graph_optimizations", optimizations),)
    return _derived(runner, engine, engine_options=options, optimization=ladder.AS_IS, weights="")


def _derived(
    runner: CaseRunner, engine: str, *, engine_options: tuple[tuple[str, str], ...] = (), **fields: Any
) -> CaseRunner:
    case = dataclasses.replace(runner.case, engine=engine, engine_options=engine_options, fuser="", **fields)
    return runner.as_reference(case, EngineRequest(engine, engine, engine_options))
