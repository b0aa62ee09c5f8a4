from __future__ import annotations

import pytest
import torch
from model_files import MODELS, THIN

PAIRS = [(name, component) for name in THIN for component in MODELS[name].components]


def layers(model: str, component: str) -> list[tuple[object, ...]]:
    """Return path, type and everything about a layer that is not a width."""
    found: list[tuple[object, ...]] = []
    for path, module in MODELS[model].module(component, weights=None).named_modules():
        geometry: tuple[object, ...] = ()
        if isinstance(module, torch.nn.Conv2d):
            geometry = (module.kernel_size, module.stride, module.padding, module.bias is not None)
        elif isinstance(module, torch.nn.Linear):
            geometry = (module.bias is not None,)
        elif isinstance(module, (torch.nn.GroupNorm, torch.nn.LayerNorm)):
            geometry = (module.eps,)
        found.append((path, type(module).__name__, *geometry))
    return found


def test_every_model_has_a_twin():
    twins = set(THIN) - {"shapes"}  # which is no narrow form of a released model
    assert sorted(name.removesuffix("-thin") for name in twins) == sorted(set(MODELS) - set(THIN))


@pytest.mark.parametrize(("thin", "component"), PAIRS)
def test_a_twin_has_the_same_layers(thin, component):
    assert layers(thin, component) == layers(thin.removesuffix("-thin"), component)


@pytest.mark.parametrize("thin", THIN)
def test_a_twin_differs_from_its_model_in_widths_alone(thin):
    widths = {
        "addition_time_embed_dim",
        "attention_head_dim",
        "block_out_channels",
        "cross_attention_dim",
        "hidden_size",
        "intermediate_size",
        "norm_num_groups",
        "num_attention_heads",
        "projection_class_embeddings_input_dim",
        "projection_dim",
        "sample_size",
        "vocab_size",
    }
    for component in MODELS[thin].components:
        narrow, full = MODELS[thin].config(component), MODELS[thin.removesuffix("-thin")].config(component)
        assert {key for key in full | narrow if full.get(key) != narrow.get(key)} <= widths


@pytest.mark.parametrize(("thin", "component"), PAIRS)
def test_a_twin_fits_the_kernels_of_gpus(thin, component):
    for path, module in MODELS[thin].module(component, weights=None).named_modules():
        if isinstance(module, torch.nn.GroupNorm):
            assert module.num_channels % (2 * module.num_groups) == 0, path
        heads = getattr(module, "heads", None) or getattr(module, "num_heads", None)
        if isinstance(heads, int):
            width = module.to_q.out_features if hasattr(module, "to_q") else module.q_proj.out_features
            assert width % (8 * heads) == 0, path


@pytest.mark.parametrize("thin", THIN)
def test_no_width_of_the_text_equals_a_width_of_the_image(thin):
    unet = MODELS[thin].config("unet")
    assert unet["cross_attention_dim"] not in unet["block_out_channels"]
