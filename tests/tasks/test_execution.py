"""What a worker is told of a case, and what it answers, are the same values on both sides."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sample_values import execution, sample_with

from pytest_sdperf.core.files.strict_json import convert
from pytest_sdperf.core.settings import PipelineFactory
from pytest_sdperf.core.values import Build, to_json
from pytest_sdperf.core.values.artifact import BuildStep
from pytest_sdperf.core.values.encoding import from_json
from pytest_sdperf.tasks._execution import Compiled, MeasureCase, Measured, OwnPipeline, Part, Picture, RunCase
from pytest_sdperf.tasks.sampling.timing import TimingPlan
from pytest_sdperf.tasks.slowed import MeasureSlowed

BUILD = Build(
    "key", "onnx", Path("/cache/model.onnx"), "float16", counts={"::Conv": 2}, steps=(BuildStep("export", 1.5),),
    notes=("a note",),
)  # fmt: skip
COMPILED = Compiled(Path("/cache/engine"), 7, BuildStep("compile", 2.0, now=True))
PARTS = {
    "unet": Part("ort-trt", {"cuda_graph": "on"}, BUILD, "static", COMPILED),
    "vae_decoder": Part("ort", {}, BUILD),
}
COMPONENT = execution(parts=PARTS, inputs=Path("/run/inputs.npz"), altered="harness-time-of-zero")
OWN = OwnPipeline(PipelineFactory("mine", "make", "/home"), "0123456789abcdef")
REQUEST = execution(component="pipeline", picture=Picture("a horse", 3, Path("/tokenizers"), "float16", 2), own=OWN)


def sent(value):
    return json.loads(json.dumps(to_json(value)))


@pytest.mark.parametrize(
    "request_",
    [
        RunCase(COMPONENT, inside=True),
        RunCase(REQUEST, keep={"unet": 3}),
        MeasureCase(COMPONENT, TimingPlan(min_iterations=7), what_ran=False),
        MeasureSlowed(COMPONENT, TimingPlan(), slowdowns=(0.0, 0.02)),
    ],
)
def test_a_worker_reads_the_request_that_was_sent(request_):
    assert to_json(from_json(sent(request_), type(request_))) == to_json(request_)
    assert from_json(sent(request_), type(request_)).case == request_.case


def test_the_suite_reads_the_sample_that_was_taken():
    taken = Measured(sample_with(10.0, versions={"torch": "2"}))
    assert convert(sent(taken), Measured) == taken


@pytest.mark.parametrize(("kind", "device"), [("cpu", "cpu"), ("cuda", "cuda:0"), ("rocm", "cuda:0")])
def test_torch_calls_every_gpu_alike(kind, device):
    assert execution(device_kind=kind).torch_device == device


def test_a_case_is_drawn_in_another_dtype():
    assert REQUEST.drawn_in("float32").picture == Picture("a horse", 3, Path("/tokenizers"), "float32", 0)
