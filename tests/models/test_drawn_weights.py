from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from model_files import MODELS, call_inputs, draw_all
from safetensors.torch import load_file, save_file

from pytest_sdperf.core.errors import WeightsError
from pytest_sdperf.core.values import Workload

WORKLOAD = Workload(height=64, width=64)
FLOAT16_SAFE = 1e4
MODEL = MODELS["sd15-thin"]


@pytest.fixture(scope="module")
def drawn(tmp_path_factory) -> dict[str, Path]:
    return draw_all(MODEL, tmp_path_factory.mktemp("weights"))


def relative_l2(obtained: torch.Tensor, reference: torch.Tensor) -> float:
    return float((obtained.double() - reference.double()).norm() / reference.double().norm())


def run(component: str, path: Path, dtype: str) -> tuple[torch.Tensor, ...]:
    module = MODEL.module(component, weights=path, dtype=dtype)
    with torch.no_grad():
        results: tuple[torch.Tensor, ...] = module(*call_inputs(MODEL, component, WORKLOAD, dtype=dtype))
    return results


def check_activations(name: str, component: str, path: Path) -> None:
    model = MODELS[name]
    module = model.module(component, weights=path)
    largest: dict[str, float] = {}

    def keep(path: str) -> Callable[..., None]:
        def hook(_module: object, _inputs: object, output: object) -> None:
            if isinstance(output, torch.Tensor):
                largest[path] = float(output.abs().max())

        return hook

    for child_path, child in module.named_modules():
        child.register_forward_hook(keep(child_path))
    with torch.no_grad():
        results = module(*call_inputs(model, component, WORKLOAD, dtype="float32"))
    assert len(largest) > 20
    assert max(largest.values()) < FLOAT16_SAFE
    assert min(largest.values()) > 1e-2
    for result in results:
        assert 0.2 < float(result.std()) < 10
        assert float(result.abs().mean()) > 0.1


@pytest.mark.parametrize("component", MODEL.components)
def test_activations_stay_in_the_range_of_float16(component, drawn):
    check_activations(MODEL.name, component, drawn[component])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sd21-thin", "sdxl-thin", "sdxl-refiner-thin"])
def test_activations_of_wider_families_stay_in_the_range_of_float16(name, tmp_path):
    for component in MODELS[name].components:
        path = tmp_path / f"{component}.safetensors"
        MODELS[name].draw_weights(component, path)
        check_activations(name, component, path)
        path.unlink()


def test_rounding_errors_of_the_unet_are_those_of_a_real_one(drawn):
    exact, single, half = (run("unet", drawn["unet"], kind)[0] for kind in ("float64", "float32", "float16"))
    assert 2e-7 < relative_l2(single, exact) < 3e-6
    assert 5e-4 < relative_l2(half, single) < 4e-3


def test_no_tensor_is_constant_and_every_norm_is_drawn(drawn):
    for component, path in drawn.items():
        tensors = load_file(path)
        assert all(float(tensor.std()) > 0 for tensor in tensors.values())
        for module_path, module in MODEL.module(component, weights=path).named_modules():
            if isinstance(module, (torch.nn.GroupNorm, torch.nn.LayerNorm)):
                assert float(module.weight.min()) < 0.75, module_path
                assert float(module.weight.max()) > 1.25, module_path
                assert float(module.bias.abs().max()) > 0.25, module_path


def test_equal_seeds_give_equal_files_and_others_do_not(tmp_path, drawn):
    MODEL.draw_weights("vae_decoder", tmp_path / "same.safetensors", seed=0)
    MODEL.draw_weights("vae_decoder", tmp_path / "other.safetensors", seed=1)
    assert (tmp_path / "same.safetensors").read_bytes() == drawn["vae_decoder"].read_bytes()
    same, other = load_file(tmp_path / "same.safetensors"), load_file(tmp_path / "other.safetensors")
    assert all(not torch.equal(same[name], other[name]) for name in same)
    assert not list(tmp_path.glob("*.partial"))


def test_the_halves_of_the_autoencoder_are_parts_of_one_set(drawn):
    decoder, encoder = load_file(drawn["vae_decoder"]), load_file(drawn["vae_encoder"])
    assert not set(decoder) & set(encoder)
    assert {name.partition(".")[0] for name in decoder} == {"decoder", "post_quant_conv"}
    assert {name.partition(".")[0] for name in encoder} == {"encoder", "quant_conv"}


def test_a_loaded_module_is_complete_and_of_the_asked_type(drawn):
    module = MODEL.module("text_encoder", weights=drawn["text_encoder"], dtype="bfloat16")
    assert {parameter.dtype for parameter in module.parameters()} == {torch.bfloat16}
    assert not any(parameter.requires_grad for parameter in module.parameters())
    assert not module.training
    (positions,) = (buffer for name, buffer in module.named_buffers() if name.endswith("position_ids"))
    assert torch.equal(positions, torch.arange(77)[None])


def test_a_file_that_lacks_a_tensor_is_refused(drawn, tmp_path):
    tensors = load_file(drawn["vae_decoder"])
    del tensors["post_quant_conv.bias"]
    path = tmp_path / "lacking.safetensors"
    save_file(tensors, path)
    with pytest.raises(WeightsError) as caught:
        MODEL.module("vae_decoder", weights=path)
    assert str(caught.value) == (
        f"{path} lacks 'post_quant_conv.bias'. Draw or import the weights of this model again."
    )


def test_a_file_with_another_shape_is_refused(drawn, tmp_path):
    tensors = load_file(drawn["vae_decoder"])
    tensors["post_quant_conv.bias"] = torch.ones(5)
    path = tmp_path / "misfit.safetensors"
    save_file(tensors, path)
    with pytest.raises(WeightsError) as caught:
        MODEL.module("vae_decoder", weights=path)
    assert str(caught.value) == (
        f"{path} holds 'post_quant_conv.bias' with shape [5], the model needs [4]. "
        "It is another model's; choose --model to fit it."
    )
