"""What a worker says of a whole request that it has measured: by which the times of engines are compared fairly."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

import pytest
from sample_values import execution

from pytest_sdperf.models import sdxl
from pytest_sdperf.tasks import _runtime_report, slowed
from pytest_sdperf.tasks import pipeline as task
from pytest_sdperf.tasks._execution import MeasureCase
from pytest_sdperf.tasks._loading import LoadedComponent
from pytest_sdperf.tasks.sampling.phases import Silent
from pytest_sdperf.tasks.sampling.timing import TimingPlan

PLAN = TimingPlan(min_iterations=1, max_iterations=1, timed_s=0.0, warmup_s=0.0)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_it_says_how_often_the_unet_was_called_and_in_which_type_the_image_was_decoded(tmp_path, monkeypatch, dtype):
    part = LoadedComponent(
        model=sdxl.MODELS[0],
        runner=SimpleNamespace(
            facts=lambda: {"accumulation": "float32"},
            enter=lambda phase: None,
            leave=lambda phase: None,
            allocator_peak_bytes=lambda *, reset: 4096,
        ),
        engine=SimpleNamespace(name="toy", versions=lambda: {"torch": "2"}, consumes="onnx"),
        load_s=0.5,
    )

    def generate(prompts, *, seed, workload, on_step, rounding):
        return SimpleNamespace(unet_calls=51, vae_dtype=dtype)

    @contextlib.contextmanager
    def loaded(case, context):
        yield SimpleNamespace(model=sdxl.MODELS[0], generate=generate), {"unet": part, "vae_decoder": part}

    monkeypatch.setattr(task, "loaded_request", loaded)
    monkeypatch.setattr(task, "_stages", lambda parts, case: {})  # it watches a request more
    monkeypatch.setattr(_runtime_report, "of_request", lambda parts, call, *, facts, **_: facts)
    context = SimpleNamespace(out_dir=tmp_path, listener=Silent())
    request = MeasureCase(execution(component="pipeline"), PLAN)
    sample = task.measure(request, context).sample  # type: ignore[arg-type]  # only its folder and listener
    facts = sample.facts
    # One allocator serves every component of a process, whatever the engine loads.
    assert sample.peaks_bytes["allocator"] == {"first_run": 4096, "second_run": 4096}
    assert (sample.unet_calls, facts["vae_dtype"], facts["caching"]) == (51, dtype, "none")
    assert {name: one["accumulation"] for name, one in facts["components"].items()} == {
        "unet": "float32", "vae_decoder": "float32"
    }  # fmt: skip
    # A self-test makes each request longer, and looks at nothing else.
    monkeypatch.setattr(task, "_stages", None)
    told = slowed.measure(slowed.MeasureSlowed(execution(component="pipeline"), PLAN, (0.0, 0.5)), context)  # type: ignore[arg-type]
    assert told.sample.facts["versions"] == {"torch": "2"}
    assert [one.asked for one in told.slowed] == [0.5]
    assert told.slowed[0].obtained >= 0.5
