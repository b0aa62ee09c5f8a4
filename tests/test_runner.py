from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from door_toys import ToyEngine, toy_catalog
from sample_values import case

from pytest_sdperf import process
from pytest_sdperf.device import Device
from pytest_sdperf.runner import CaseRunner
from pytest_sdperf.settings import EngineRequest, Settings
from pytest_sdperf.values import Build

CARD = Device("cuda", "NVIDIA T4", "t4", uuid="GPU-1")


@pytest.mark.parametrize("name", ["CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"])
def test_an_environment_never_moves_a_case_to_another_device(tmp_path, monkeypatch, name):
    given = []
    monkeypatch.setattr(process, "run_task", lambda task, arguments, **keywords: given.append(keywords["env"]) or {})
    workbench = SimpleNamespace(
        settings=Settings(), catalog=toy_catalog(), device=CARD, new_folder=lambda name: tmp_path
    )
    request = EngineRequest("mine", "ort-cpu", env={name: "elsewhere", "ORT_LOG": "1"})
    CaseRunner(case(), request, workbench).task("run", {})
    assert given == [{"ORT_LOG": "1", "CUDA_VISIBLE_DEVICES": "GPU-1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}]


class CompilingEngine(ToyEngine):
    compiles = True


@pytest.fixture
def compiling(tmp_path):
    """Make a runner of an engine that compiles."""
    catalog = toy_catalog()
    catalog.add_engine(CompilingEngine("compiling"))
    workbench = SimpleNamespace(
        settings=Settings(worker_timeout_s=10, build_timeout_s=100),
        catalog=catalog,
        device=CARD,
        folder=tmp_path,
        new_folder=lambda name: Path(tempfile.mkdtemp(dir=tmp_path)),
    )

    def make(engine="compiling", **fields):
        request = EngineRequest(engine, engine, env=fields.pop("env", {}))
        return CaseRunner(dataclasses.replace(case(), engine=engine, **fields), request, workbench)

    return make


def work_dir(runner, key="key"):
    build = Build(key, "onnx", Path("model.onnx"), "float16")
    return Path(runner.arguments({}, builds={runner.case.component: build})["work_dir"])


def test_every_process_of_a_case_has_one_folder_for_what_is_compiled(compiling):
    folder = work_dir(compiling())
    assert folder == work_dir(compiling())
    assert folder.is_dir()
    others = [
        work_dir(compiling(), "another build"),
        work_dir(compiling(batch_size=8)),
        work_dir(compiling(engine_options=(("mode", "x"),))),
        work_dir(compiling(env={"A": "1"})),
    ]
    assert len({folder, *others}) == 5


@pytest.mark.parametrize(("engine", "expected"), [("compiling", [110, 10]), ("ort-cpu", [10, 10])])
def test_the_first_process_of_a_case_has_the_time_to_compile(compiling, engine, expected, monkeypatch):
    given = []
    runner = compiling(engine)
    arguments = {"work_dir": str(work_dir(runner))}

    def run_task(task, arguments, *, timeout_s, **_):
        given.append(timeout_s)
        (Path(arguments["work_dir"]) / "compiled").touch()
        return {}

    monkeypatch.setattr(process, "run_task", run_task)
    for _ in range(2):
        runner.task("run", arguments)
    assert given == expected
