"""Where a case cannot be called again and again it is said why, and what to type."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from sample_values import case

from pytest_sdperf.builds.execution.calls import ReplayCall, _inputs
from pytest_sdperf.checks.replay import batch, calls, resolutions
from pytest_sdperf.core.contracts import Arrays
from pytest_sdperf.core.errors import NoReferenceError
from pytest_sdperf.engines.ort_cpu import OrtCpuEngine
from pytest_sdperf.engines.tensorrt import TensorRtEngine
from pytest_sdperf.engines.torch_eager import TorchEngine
from pytest_sdperf.models import sd15, sd21

THIN = next(model for model in sd15.MODELS if model.name == "sd15-thin")
ENGINES = {"ort-cpu": OrtCpuEngine(), "torch": TorchEngine(), "tensorrt": TensorRtEngine()}
ONE_SIZE = "not applicable: the graph takes one size alone; type --sdperf-shapes=dynamic"


def about(engine="ort-cpu", *, model=THIN, has_module=True, **fields):
    own = case(**{"engine": engine, "component": "unet", **fields})
    settings = SimpleNamespace(selection=SimpleNamespace(has_module=has_module))
    return SimpleNamespace(
        case=own,
        engine=ENGINES[engine],
        model=model,
        is_pipeline=own.component == "pipeline",
        dtype="float16",
        context=SimpleNamespace(settings=settings, builder=SimpleNamespace(external=None, reference=None)),
    )


@pytest.mark.parametrize(
    ("runner", "text"),
    [
        (about(), ONE_SIZE),
        (about(exporter="external"), "not applicable: the graph takes one size alone; export it with dynamic axes"),
        (about(shapes="dynamic"), ""),
        (
            about("tensorrt", shapes="dynamic"),
            "not applicable: tensorrt serves the size that it was loaded for, and no other",
        ),
        (about(component="text_encoder", shapes="dynamic"), "not applicable: a text encoder sees no pixels"),
        (
            about("torch", exporter="", shapes=""),
            (
                "not applicable: plain torch is what the others are compared with; name another engine, or options of "
                "this one, such as --sdperf-engine=torch:channels_last=on"
            ),
        ),
        (about("torch", exporter="", shapes="", engine_options=(("channels_last", "on"),)), ""),
    ],
)
def test_resolutions(runner, text):
    assert resolutions.not_applicable(runner) == text


class WithoutAxes:
    def inputs(self, component, workload):
        return ()


@pytest.mark.parametrize(
    ("runner", "text"),
    [
        (about(), ""),  # a UNet of one image has two rows
        (about(component="pipeline", batch_size=4), ""),
        (about(component="pipeline", shapes="dynamic"), ""),
        (
            about(component="pipeline"),
            "not applicable: a batch of one image; type --sdperf-batch-size=4, or --sdperf-shapes=dynamic",
        ),
        (
            about(model=WithoutAxes(), shapes="dynamic"),
            "not applicable: the model says of no input which axis the batch is along",
        ),
    ],
)
def test_a_batch(runner, text):
    assert batch.not_applicable(runner) == text


def test_graphs_without_a_module_have_nothing_to_be_compared_with():
    with pytest.raises(NoReferenceError) as raised:
        calls.wanted(about(exporter="external", has_module=False), [])
    assert str(raised.value) == (
        "nothing to compare the unet with: --sdperf-onnx-dir holds graphs alone. Type --sdperf-weights=FOLDER with the "
        "torch weights that they were exported from, or --sdperf-onnx-reference=FOLDER with a float32 export of them."
    )


@pytest.mark.parametrize(
    ("model", "named", "expected"),
    [
        (THIN, (), ["128x128", "192x128", "192x192"]),
        (sd21.MODELS[0], (), ["512x512", "640x448", "768x768"]),
        (THIN, ((64, 64), (128, 64)), ["64x64", "128x64"]),
    ],
)
def test_resolutions_are_those_of_the_model_or_those_that_were_named(model, named, expected):
    assert [resolutions.spelled(size) for size in resolutions.sizes_of(about(model=model), named)] == expected


def drawn(call) -> Arrays:
    return _inputs(about(), call)


def test_a_row_alone_is_that_row_in_every_place():
    together, (first, *_, last) = (
        drawn(ReplayCall("all", about().case.workload, (), drawn=4)),
        batch.calls_of(about(shapes="dynamic")),
    )
    assert together["sample"].shape[0] == 8
    for call, row in ((first, 0), (last, 7)):
        alone = drawn(call)
        assert alone["sample"].shape[0] == 2
        assert all((alone[name] == together[name][row]).all() for name in ("sample", "encoder_hidden_states"))
        assert (alone["timestep"] == together["timestep"]).all()
