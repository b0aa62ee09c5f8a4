from __future__ import annotations

import pytest
from model_files import MODELS


def parameters(model: str, component: str) -> int:
    return sum(parameter.numel() for parameter in MODELS[model].module(component, weights=None).parameters())


@pytest.mark.parametrize(
    ("model", "component", "expected"),
    [
        ("sd15", "unet", 859_520_964),
        ("sd21", "unet", 865_910_724),
        ("sd21-base", "unet", 865_910_724),
        ("sdxl", "unet", 2_567_463_684),
        ("sdxl-refiner", "unet", 2_259_526_660),
        ("sd15", "text_encoder", 123_060_480),
        ("sd21", "text_encoder", 340_387_840),
        ("sdxl", "text_encoder", 123_060_480),
        ("sdxl", "text_encoder_2", 694_659_840),
        ("sdxl-refiner", "text_encoder_2", 694_659_840),
    ],
)
def test_a_component_has_as_many_parameters_as_the_released_one(model, component, expected):
    assert parameters(model, component) == expected


@pytest.mark.parametrize("model", ["sd15", "sd21", "sd21-base", "sdxl", "sdxl-refiner"])
def test_the_two_halves_of_the_autoencoder_are_the_released_one(model):
    assert parameters(model, "vae_decoder") + parameters(model, "vae_encoder") == 83_653_863


def test_without_weights_nothing_is_allocated():
    assert {tensor.device.type for tensor in MODELS["sd15"].module("unet", weights=None).state_dict().values()} == {
        "meta"
    }


@pytest.mark.parametrize("model", MODELS)
def test_the_table_of_parameters_holds_what_a_module_has(model):
    components = MODELS[model].components
    assert {name: MODELS[model].parameters(name) for name in components} == {
        name: parameters(model, name) for name in components
    }
