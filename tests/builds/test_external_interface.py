"""Does an external graph fit a model's requests? What is adapted, and what is said where nothing helps."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from tiny_model import TinyModel

from pytest_sdperf.builds.external_graph import ExternalGraph, ExternalTensor
from pytest_sdperf.builds.interface import fit
from pytest_sdperf.core.errors import BuildError
from pytest_sdperf.core.values import Workload
from pytest_sdperf.models import sd15, sdxl
from pytest_sdperf.tasks.import_graph import Interface, Port

MODELS = {model.name: model for model in (*sd15.MODELS, *sdxl.MODELS)}
SD15, SD15_THIN, SDXL_THIN = (MODELS[name] for name in ("sd15", "sd15-thin", "sdxl-thin"))
WORKLOAD = Workload(1, 128, 128)
PATH = Path("/given/unet/model.onnx")


def graph(inputs, outputs):
    tensors = [tuple(ExternalTensor(*one) for one in group) for group in (inputs, outputs)]
    return ExternalGraph(PATH, (), *tensors, opset=18, dtype="float32", counts={})


def tiny(*, sample=(2, 16, 32), timestep=(), dtype="float32", names=("sample", "timestep", "out_sample")):
    given = [(names[0], dtype, sample), (names[1], "int64", timestep)]
    return graph(given, [(names[2], dtype, sample)])


def unet(*, batch=2, size=16, text=96):
    inputs = [
        ("sample", "float32", (batch, 4, size, size)),
        ("timestep", "float32", (1,)),
        ("encoder_hidden_states", "float32", (batch, 77, text)),
    ]
    return graph(inputs, [("out_sample", "float32", (batch, 4, size, size))])


def refusal(given, model, workload=WORKLOAD, others=(), component="unet"):
    with pytest.raises(BuildError) as raised:
        fit(given, model, component, workload, others=others)
    return str(raised.value)


def test_equal_names_and_shapes_need_no_change():
    assert fit(tiny(), TinyModel(), "unet", WORKLOAD, others=()) == Interface(
        (Port("sample", "sample"), Port("timestep", "timestep")), (Port("out_sample", "out_sample"),)
    )


def test_open_sizes_fit_every_request():
    given = tiny(sample=("batch", "tokens", 32))
    for batch_size in (1, 3):
        assert fit(given, TinyModel(), "unet", Workload(batch_size, 128, 192), others=())


@pytest.mark.parametrize(("timestep", "wanted"), [((1,), (1,)), ((2,), (2,)), (("steps",), (1,))])
def test_a_single_number_may_have_another_shape_or_be_repeated(timestep, wanted):
    port = fit(tiny(timestep=timestep), TinyModel(), "unet", WORKLOAD, others=()).inputs[1]
    assert port == Port("timestep", "timestep", (), wanted)


def test_the_only_output_may_have_any_name():
    given = tiny(names=("sample", "timestep", "noise_pred"))
    assert fit(given, TinyModel(), "unet", WORKLOAD, others=()).outputs == (Port("noise_pred", "out_sample"),)


def test_the_hidden_state_before_the_last_is_found_among_those_that_optimum_numbers():
    config = SDXL_THIN.config("text_encoder")
    hidden = ("float32", (1, 77, config["hidden_size"]))
    states = [(f"hidden_states.{index}", *hidden) for index in range(13)]
    given = graph([("input_ids", "int32", (1, 77))], [("last_hidden_state", *hidden), *states])
    assert fit(given, SDXL_THIN, "text_encoder", WORKLOAD, others=()).outputs == (
        Port("hidden_states.11", "penultimate_hidden_state"),
    )


def test_other_sizes_name_the_options_that_ask_for_them():
    text = refusal(unet(batch=4, size=24), SD15_THIN)
    assert text == (
        f"{PATH} is no unet of sd15-thin as it was asked for: axis 0 of sample is 4, not 2; axis 2 of sample is 24, "
        "not 16; axis 3 of sample is 24, not 16; axis 0 of encoder_hidden_states is 4, not 2; axis 0 of out_sample is "
        "4, not 2; axis 2 of out_sample is 24, not 16; axis 3 of out_sample is 24, not 16. It takes sample float32 "
        "[4, 4, 24, 24], timestep float32 [1], encoder_hidden_states float32 [4, 77, 96] and returns out_sample "
        "float32 [4, 4, 24, 24]. Expected: sample float [2, 4, 16, 16], timestep float32 [1], encoder_hidden_states "
        "float [2, 77, 96] and out_sample float [2, 4, 16, 16]. Type --batch-size=2 --resolution=192x192, or export "
        "it for these sizes or with dynamic axes."
    )


def test_another_pipeline_is_named_by_its_model():
    assert refusal(unet(text=768), SD15_THIN, others=(SD15_THIN, SD15)).endswith(
        "float [2, 77, 96] and out_sample float [2, 4, 16, 16]. It fits --model=sd15."
    )


def test_missing_and_unknown_inputs_are_listed():
    given = dataclasses.replace(
        unet(), inputs=(*unet().inputs[:2], ExternalTensor("timestep_cond", "float32", (2, 256))), outputs=()
    )
    assert refusal(given, SD15_THIN, others=(SD15_THIN, SD15)) == (
        f"{PATH} is no unet of sd15-thin as it was asked for: it has no input encoder_hidden_states; its input "
        "timestep_cond is not known; it has no output out_sample. It takes sample float32 [2, 4, 16, 16], timestep "
        "float32 [1], timestep_cond float32 [2, 256] and returns nothing. Expected: sample float [2, 4, 16, 16], "
        "timestep float32 [1], encoder_hidden_states float [2, 77, 96] and out_sample float [2, 4, 16, 16]. No model "
        "that is registered takes these; register one in a conftest.py, or export it with these names."
    )


def test_a_type_and_a_rank_that_no_request_has():
    assert refusal(tiny(sample=(2, 16), dtype="float64"), TinyModel()).startswith(
        f"{PATH} is no unet of tiny as it was asked for: sample is float64, not float32 or float16; sample has 2 axes, "
        f"not 3; out_sample is float64, not float32 or float16; out_sample has 2 axes, not 3. It takes"
    )
