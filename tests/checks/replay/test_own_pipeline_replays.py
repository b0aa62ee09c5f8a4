"""A pipeline that the user's own code makes, called again and again: right ones pass, and wrong ones are named."""

from __future__ import annotations

import dataclasses

import pytest
from own_pipelines import write_pipeline

from pytest_sdperf.builds.execution.external_pipeline import described
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.replay.batch import mix
from pytest_sdperf.checks.replay.judging import judge_replay
from pytest_sdperf.checks.replay.repeats import repeat
from pytest_sdperf.checks.replay.resolutions import resize, sizes_of
from pytest_sdperf.core.settings import EngineRequest, PipelineFactory
from pytest_sdperf.core.values import Case
from pytest_sdperf.engines.external_pipeline import ExternalPipelineEngine
from pytest_sdperf.models.external_pipeline import external_model

# torch.Tensor.__array__ as the schedulers of diffusers call it.
NUMPY = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword:DeprecationWarning")
CHECKS = {
    "repeats": lambda runner: repeat(runner, repeats=2),
    "batch": mix,
    "resolutions": lambda runner: resize(runner, sizes_of(runner, [(64, 64), (128, 64)])),
}


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return write_pipeline(tmp_path_factory.mktemp("own") / "thin")


@pytest.fixture
def code_of(case_on, folder, monkeypatch):
    monkeypatch.setenv("OWN_PIPELINE", str(folder))
    bench = case_on("healthy").context
    bench.catalog.add_engine(ExternalPipelineEngine())

    def judged(check: str, function: str) -> str:
        factory = PipelineFactory("own_factories", function)
        bench.catalog.add_model(external_model(factory.label, on_cpu=True))
        own = described(factory, bench)
        case = Case(factory.label, "pipeline", "diffusers", "as-is", height=64, width=64, steps=1)
        request = EngineRequest("diffusers", "diffusers")
        runner = dataclasses.replace(own, case=own.description.completed(case), request=request)
        return judge_replay(CHECKS[check](runner), runner.case, policy=Policy(on_cpu=True)).code

    return judged


@NUMPY
@pytest.mark.slow
@pytest.mark.parametrize(
    ("check", "function", "code"),
    [
        ("repeats", "make", "answers-repeated"),
        ("batch", "make", "images-apart"),
        ("resolutions", "make", "resolutions-served"),
        ("repeats", "that_remembers", "answer-stale"),
        ("repeats", "with_one_buffer", "outputs-overwritten"),
        ("batch", "that_mixes_its_batch", "images-mixed"),
    ],
)
def test_an_own_pipeline(code_of, check, function, code):
    assert code_of(check, function) == code
