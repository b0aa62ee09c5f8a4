from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from model_files import MODELS, THIN

from pytest_sdperf.core.errors import UnknownNameError
from pytest_sdperf.core.values import Workload

workloads = st.builds(
    Workload,
    batch_size=st.integers(1, 4),
    height=st.integers(1, 16).map(lambda units: 64 * units),
    width=st.integers(1, 16).map(lambda units: 64 * units),
)


@given(name=st.sampled_from(sorted(MODELS)), workload=workloads, seed=st.integers(0, 2**32))
@settings(max_examples=20)
def test_examples_are_what_the_inputs_say(name, workload, seed):
    model = MODELS[name]
    for component in model.components:
        example = model.example(component, workload, seed=seed)
        again = model.example(component, workload, seed=seed)
        assert list(example) == [spec.name for spec in model.inputs(component, workload)]
        for spec in model.inputs(component, workload):
            array = example[spec.name]
            assert array.shape == spec.shape
            assert array.dtype == np.dtype("float32" if spec.dtype == "float" else spec.dtype)
            assert np.array_equal(array, again[spec.name])
            assert np.isfinite(array).all()
            assert np.abs(array).max() > 0
            assert set(spec.axes) <= set(range(len(spec.shape)))


@pytest.mark.parametrize(("name", "component"), [(name, part) for name in THIN for part in MODELS[name].components])
def test_outputs_are_what_the_module_returns(name, component):
    model, workload = MODELS[name], Workload(batch_size=3, height=64, width=128)
    module = model.module(component, weights=None)
    with torch.device("meta"):
        inputs = [
            torch.empty(spec.shape, dtype=torch.int64 if spec.dtype == "int64" else torch.float32)
            for spec in model.inputs(component, workload)
        ]
    for child in module.modules():
        if "position_ids" in dict(child.named_buffers(recurse=False)):
            child.position_ids = child.position_ids.to("meta")
    results = module(*inputs)
    assert [tuple(result.shape) for result in results] == [spec.shape for spec in model.outputs(component, workload)]


def test_a_unet_runs_at_twice_the_batch_size():
    sample, timestep, states = MODELS["sd15"].inputs("unet", Workload(batch_size=4))
    assert sample.shape == (8, 4, 64, 64)
    assert (timestep.dtype, timestep.shape) == ("float32", (1,))
    assert states.shape == (8, 77, 768)


def test_sdxl_is_conditioned_by_pooled_text_and_sizes():
    shapes = {spec.name: spec.shape for spec in MODELS["sdxl"].inputs("unet", Workload())}
    assert (shapes["text_embeds"], shapes["time_ids"]) == ((2, 1280), (2, 6))
    shapes = {spec.name: spec.shape for spec in MODELS["sdxl-refiner"].inputs("unet", Workload())}
    assert (shapes["text_embeds"], shapes["time_ids"]) == ((2, 1280), (2, 5))


def test_token_ids_begin_with_the_first_and_end_with_the_last_special_token():
    ids = MODELS["sd15"].example("text_encoder", Workload(batch_size=2))["input_ids"]
    assert (ids[:, 0] == 49406).all()
    assert (ids[:, -1] == 49407).all()
    assert ids[:, 1:8].max() < 49406


def test_an_unknown_component_is_answered_with_the_known_ones():
    with pytest.raises(UnknownNameError) as caught:
        MODELS["sd15"].inputs("unett", Workload())
    assert str(caught.value) == (
        "unknown component of sd15 'unett'. Did you mean 'unet'? Known: text_encoder, unet, vae_decoder, vae_encoder."
    )
