"""What a reference is known by: whatever decides what it holds makes another one of it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace

import pytest
from sample_values import case

from pytest_sdperf.builds.execution import runner as runners
from pytest_sdperf.builds.execution.runner import CaseRunner
from pytest_sdperf.checks.references.derived import plain_runner
from pytest_sdperf.checks.references.stored import reference_keys
from pytest_sdperf.core.alteration import Alteration
from pytest_sdperf.core.files.arrays import digest_of
from pytest_sdperf.core.settings import EngineRequest
from pytest_sdperf.core.values import Build
from pytest_sdperf.models import sd15

(THIN,) = (model for model in sd15.MODELS if model.name == "sd15-thin")
BUILDS = {"unet": Build("weights-0", "module", Path("weights"), "float32")}


def runner_of(component="pipeline", model=THIN, tokenizers="tokenizers-0", device="a CPU", **fields):
    bench = SimpleNamespace(
        builder=SimpleNamespace(tokenizers=lambda name: Path("/cache/entries", tokenizers)),
        catalog=SimpleNamespace(models={"sd15-thin": model}, alteration=lambda name: Alteration()),
        device=SimpleNamespace(name=device),
    )
    own = case(model="sd15-thin", component=component, width=64, height=64, **fields)
    return CaseRunner(own, EngineRequest("torch", "torch"), bench)


def key(runner, builds=BUILDS, **more):
    return reference_keys(runner, {"float32": more}, code=("pytest_sdperf.core.units",), builds=builds)["float32"]


def scheduled(**changes):
    return dataclasses.replace(THIN, scheduler_config={**THIN.scheduler_config, **changes})


@pytest.mark.parametrize(
    ("changed", "more"),
    [
        (runner_of(tokenizers="tokenizers-1"), {}),
        (runner_of(model=dataclasses.replace(THIN, guidance_scale=3.0)), {}),
        (runner_of(model=scheduled(beta_end=0.02)), {}),
        (runner_of(model=scheduled(prediction_type="v_prediction")), {}),
        (runner_of(device="another CPU"), {}),
        (runner_of(steps=9), {}),
        (runner_of(), {"dtype": "float16"}),
        (runner_of(), {"builds": {}}),
    ],
)
def test_of_a_request(changed, more):
    assert key(runner_of()) == key(runner_of())
    assert key(changed, **more) != key(runner_of())


def test_the_prompt_of_the_suite_makes_another_reference(monkeypatch):
    before = key(runner_of())
    monkeypatch.setattr(runners, "PROMPT", "a red circle")
    assert key(runner_of()) != before


def test_of_a_component_its_inputs_count_and_no_request(monkeypatch):
    before = key(runner_of("unet"))
    monkeypatch.setattr(runners, "PROMPT", "a red circle")
    assert key(runner_of("unet", model=scheduled(beta_end=0.02), tokenizers="tokenizers-1")) == before
    drawn = dict(THIN.example("unet", runner_of("unet").case.workload))
    drawn["timestep"] = drawn["timestep"] + 1
    monkeypatch.setattr(CaseRunner, "inputs", lambda runner: drawn)
    assert key(runner_of("unet")) != before


def test_names_types_shapes_and_contents_make_a_digest():
    arrays = THIN.example("vae_decoder", runner_of().case.workload)
    ((name, array),) = arrays.items()
    others = [{"x": array}, {name: array.astype("float64")}, {name: array.reshape(-1)}, {name: -array}, {}]
    assert len({digest_of(one) for one in [arrays, *others]}) == 6
    assert digest_of(dict(arrays)) == digest_of(arrays)


def test_whatever_is_derived_from_a_faulty_case_has_no_fault():
    faulty = dataclasses.replace(runner_of(), altered="numerics-one-percent-high")
    assert faulty.as_reference(faulty.case, faulty.request).altered == ""
    assert plain_runner(faulty).altered == ""
    assert key(plain_runner(faulty)) == key(plain_runner(runner_of()))
