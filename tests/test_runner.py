from __future__ import annotations

from types import SimpleNamespace

import pytest
from door_toys import toy_catalog
from sample_values import case

from pytest_sdperf import process
from pytest_sdperf.device import Device
from pytest_sdperf.runner import CaseRunner
from pytest_sdperf.settings import EngineRequest, Settings

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
