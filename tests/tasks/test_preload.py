"""What a waiting process has imported when its turn comes, and what it has not."""

from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest
from door_toys import ToyEngine, toy_catalog
from sample_values import execution

from pytest_sdperf.core.errors import EngineMissingError
from pytest_sdperf.engines.torch_eager import TorchEngine
from pytest_sdperf.tasks import TaskContext, preload
from pytest_sdperf.tasks.sampling.phases import Silent

PROGRAM = """
import json, sys
from pathlib import Path
from pytest_sdperf import builtins
from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.values import Build, Workload
from pytest_sdperf.tasks.sampling.phases import Silent
from pytest_sdperf.tasks import TaskContext, preload
from pytest_sdperf.tasks._execution import Execution, Part

catalog = Catalog()
builtins.pytest_sdperf_register(catalog)
engine, component, names = sys.argv[1], sys.argv[2], sys.argv[3:]
part = Part(engine, {}, Build("", "onnx", Path(), "float32"))
parts = ("text_encoder", "unet", "vae_decoder") if component == "pipeline" else (component,)
case = Execution("sd15-thin", component, dict.fromkeys(parts, part), Workload(scheduler="pndm"), "cpu")
preload.run(case, TaskContext(Path(), catalog, Silent(), print))
found = {name: name in sys.modules for name in names}
if "torch._dynamo" in names and not found["torch._dynamo"]:
    import torch._dynamo
    assert torch._dynamo.is_compiling() is False  # the real one, once somebody wants it
print(json.dumps(found))
"""
UNET = "diffusers.models.unets.unet_2d_condition"
MODELS = [UNET, "diffusers.models", "diffusers.models.modeling_utils", "transformers.models.clip.modeling_clip"]
SCHEDULER = "diffusers.schedulers.scheduling_pndm"
COMPILER = "torch._dynamo"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "component", "there", "absent"),
    [
        ("ort-cpu", "unet", ["onnxruntime"], ["torch", "diffusers", "transformers"]),
        ("ort-cpu", "pipeline", ["onnxruntime", SCHEDULER, "torch", "transformers"], [*MODELS, COMPILER]),
        ("torch", "pipeline", [UNET, SCHEDULER, "transformers", COMPILER], ["onnxruntime"]),
    ],
)
def test_what_a_case_needs_is_imported_and_nothing_else(engine, component, there, absent):
    command = [sys.executable, "-c", PROGRAM, engine, component, *there, *absent]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(answer.stdout) == dict.fromkeys(there, True) | dict.fromkeys(absent, False)


def test_the_compiler_is_hidden_only_inside(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch._dynamo", raising=False)
    with preload.without_compiler(), pytest.raises(ImportError):
        import torch._dynamo  # noqa: F401
    assert "torch._dynamo" not in sys.modules


def test_a_compiler_that_is_there_stays(monkeypatch):
    compiler = SimpleNamespace()
    monkeypatch.setitem(sys.modules, "torch._dynamo", compiler)
    with preload.without_compiler():
        assert sys.modules["torch._dynamo"] is compiler
    assert sys.modules["torch._dynamo"] is compiler


def test_the_classes_of_a_module_come_by_building_it_without_weights():
    asked = []
    model = SimpleNamespace(module=lambda component, *, weights: asked.append((component, weights)))
    TorchEngine().preload(model, "vae_decoder")
    assert asked == [("vae_decoder", None)]


def test_an_engine_imports_what_it_says_that_it_needs(tmp_path, monkeypatch):
    (tmp_path / "vendor_library.py").write_text("imported = True")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "vendor_library", raising=False)
    ToyEngine("toy", needs="vendor_library").preload(None, "unet")
    assert sys.modules["vendor_library"].imported


def test_a_missing_package_is_named(tmp_path):
    catalog = toy_catalog()
    catalog.add_engine(ToyEngine("toy", needs="a_module_that_nobody_has"))
    with pytest.raises(EngineMissingError) as caught:
        preload.run(execution("unet"), TaskContext(tmp_path, catalog, Silent(), print))
    assert str(caught.value) == (
        f"engine 'toy' cannot run under {sys.executable}: package 'a_module_that_nobody_has' is not installed; type: "
        "pip install a_module_that_nobody_has"
    )
