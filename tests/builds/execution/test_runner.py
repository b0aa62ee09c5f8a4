from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from door_toys import ToyEngine, toy_catalog
from sample_values import case, execution

from pytest_sdperf.builds.execution.device_lock import DeviceLock
from pytest_sdperf.builds.execution.runner import CaseRunner
from pytest_sdperf.builds.processes import process
from pytest_sdperf.core.device import Device
from pytest_sdperf.core.settings import EngineRequest, Settings
from pytest_sdperf.core.values import Build
from pytest_sdperf.core.values.artifact import BuildStep
from pytest_sdperf.tasks._execution import Compiled, RunCase

CARD = Device("cuda", "NVIDIA T4", "t4", uuid="GPU-1")


@pytest.mark.parametrize("name", ["CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"])
def test_an_environment_never_moves_a_case_to_another_device(tmp_path, monkeypatch, name):
    given = []
    monkeypatch.setattr(process, "run_task", lambda task, arguments, **keywords: given.append(keywords["env"]) or {})
    context = SimpleNamespace(
        settings=Settings(),
        catalog=toy_catalog(),
        device=CARD,
        new_folder=lambda name: tmp_path,
        turns=DeviceLock(CARD, tmp_path, run="this", say=print),
    )
    request = EngineRequest("mine", "ort-cpu", env={name: "elsewhere", "ORT_LOG": "1"})
    CaseRunner(case(), request, context).task("run", RunCase(execution()), dict)
    assert given == [{"ORT_LOG": "1", "CUDA_VISIBLE_DEVICES": "GPU-1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}]


class CompilingEngine(ToyEngine):
    compiles = True


COMPILED = Compiled(Path("/folder"), 7, BuildStep("compile", 1.0))


class Found:
    """Stands for what was compiled before."""

    def __init__(self):
        self.asked = []

    def find(self, engine, case, component, *, request, start):
        self.asked.append((engine.name, component, request.label, sorted(start)))
        return COMPILED

    def key_start(self, engine, case, component, *, request):
        assert case.parts[component].compiled is None
        return f"compile-{engine.name}"


def keys_of(runner, build):
    return type("Built", (CaseRunner,), {"builds": lambda self: {self.case.component: build}})(
        runner.case, runner.request, runner.context
    ).compilation_keys()


@pytest.mark.parametrize("engine", ["compiling", "ort-cpu"])
def test_what_an_engine_compiled_is_handed_to_the_process(tmp_path, engine):
    catalog, found = toy_catalog(), Found()
    catalog.add_engine(CompilingEngine("compiling"))
    context = SimpleNamespace(
        settings=Settings(),
        catalog=catalog,
        device=CARD,
        compilations=found,
        new_folder=lambda name: Path(tempfile.mkdtemp(dir=tmp_path)),
    )
    runner = CaseRunner(dataclasses.replace(case(), engine="mine"), EngineRequest("mine", engine), context)
    build = Build("key", "onnx", Path("model.onnx"), "float16")
    assert keys_of(runner, build) == (() if engine == "ort-cpu" else ("compile-compiling",))
    part = runner.execution({}, builds={runner.case.component: build}).parts[runner.case.component]
    if engine == "ort-cpu":
        assert (part.compiled, found.asked) == (None, [])
        return
    assert part.compiled == COMPILED
    start = ["env", "out_dir", "preload", "python", "registrars"]
    assert found.asked == [("compiling", runner.case.component, "mine", start)]
