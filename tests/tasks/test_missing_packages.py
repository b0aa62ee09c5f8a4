"""What a worker says where its interpreter lacks a package: that of a profile need not have any."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import pytest
from door_toys import ToyEngine
from sample_values import execution

from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.errors import EngineMissingError
from pytest_sdperf.tasks import TaskContext, component, pipeline
from pytest_sdperf.tasks._execution import MeasureCase, RunCase
from pytest_sdperf.tasks.sampling.phases import Silent
from pytest_sdperf.tasks.sampling.timing import TimingPlan

HAS = f"a pipeline needs torch, diffusers, transformers beside its engine, and {sys.executable} lacks "
PIP = f"{sys.executable} -m pip install "
ROCM = "take torch for your ROCm version from https://pytorch.org/get-started/locally/"


def run_component(case, context):
    component.run(RunCase(case), context)


def measure_component(case, context):
    component.measure(MeasureCase(case, TimingPlan()), context)


def run_pipeline(case, context):
    pipeline.run(RunCase(case), context)


def measure_pipeline(case, context):
    pipeline.measure(MeasureCase(case, TimingPlan()), context)


@pytest.fixture(params=[run_pipeline, measure_pipeline])
def task(request, tmp_path):
    context = TaskContext(tmp_path, Catalog(), Silent(), lambda text: None)
    return lambda case: request.param(case, context)


@pytest.mark.parametrize(
    ("absent", "kind", "message"),
    [
        (["torch", "diffusers", "transformers"], "cuda", "torch, diffusers, transformers; type: {pip}torch diffusers "),
        (["transformers"], "cpu", "transformers; type: {pip}transformers"),
        (["torch", "diffusers"], "rocm", "torch, diffusers; {rocm}; type: {pip}diffusers"),
        (["torch"], "rocm", "torch; {rocm}"),
    ],
)
def test_a_pipeline_names_what_it_needs_beside_its_engine(task, absent, kind, message, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name in absent else find_spec(name))
    with pytest.raises(EngineMissingError) as caught:
        task(execution(component="pipeline", device_kind=kind))
    expected = HAS + message.format(pip=PIP, rocm=ROCM) + ("transformers" if len(absent) == 3 else "")
    assert str(caught.value) == expected


@pytest.mark.parametrize("run", [run_component, measure_component])
def test_an_engine_names_what_its_interpreter_lacks(run, tmp_path):
    catalog = Catalog()
    catalog.add_engine(ToyEngine("toy", needs="a_module_that_nobody_has"))
    with pytest.raises(EngineMissingError) as caught:
        run(execution("unet"), TaskContext(tmp_path, catalog, Silent(), lambda text: None))
    assert str(caught.value) == (
        f"engine 'toy' cannot run under {sys.executable}: package 'a_module_that_nobody_has' is not installed; "
        "type: pip install a_module_that_nobody_has"
    )
