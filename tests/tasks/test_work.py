"""Operations and bytes of the released models, against counts that were made independently."""

from __future__ import annotations

import functools

import pytest
import torch

from pytest_sdperf.core.values import Workload
from pytest_sdperf.core.values.floor import Part, Peaks, floor_of
from pytest_sdperf.models import sd15, sd21, sdxl
from pytest_sdperf.tasks import work

MODELS = {model.name: model for family in (sd15, sd21, sdxl) for model in family.MODELS}
# What an H100 and an H200 measured with random numbers: bf16 products, and a copy within the memory.
H100 = Peaks(790e12, 3.0e12)
H200 = Peaks(790e12, 4.3e12)


@functools.cache
def counted(model, component, size, batch=1):
    return work.count(MODELS[model], component, Workload(batch, size, size))


@pytest.mark.parametrize(
    ("model", "component", "size", "gflop", "attention"),
    [
        # A guided call of a UNet runs at twice the number of images.
        ("sd15", "unet", 512, 2 * 803.3, 2 * 126.1),
        ("sd21-base", "unet", 512, 2 * 804.3, 2 * 126.1),
        ("sd21", "unet", 768, 2 * 2149.1, 2 * 628.1),
        ("sdxl", "unet", 1024, 2 * 6761.2, 2 * 783.9),
        ("sd15", "vae_decoder", 512, 2514.5, 34),
        ("sd21", "vae_decoder", 768, 5754.3, 174),
        ("sdxl", "vae_decoder", 1024, 10470.4, 550),
        ("sd15", "vae_encoder", 512, 1116.7, 34),
        ("sd21", "vae_encoder", 768, 2609.1, 174),
        ("sdxl", "vae_encoder", 1024, 4879.0, 550),
        ("sd15", "text_encoder", 512, 13.3, 0.2),
        ("sd21", "text_encoder", 768, 45.1, 0.6),
        ("sdxl", "text_encoder_2", 1024, 97.9, 1.0),
    ],
)
def test_operations_are_those_of_the_released_model(model, component, size, gflop, attention):
    found = counted(model, component, size)
    assert found.flops / 1e9 == pytest.approx(gflop, rel=1e-4, abs=0.05)
    assert found.attention_flops / 1e9 == pytest.approx(attention, rel=1e-3, abs=0.5)


@pytest.mark.parametrize(
    ("model", "component", "gigabytes"),
    [("sd15", "unet", 1.72), ("sd21", "unet", 1.73), ("sdxl", "unet", 5.13), ("sd15", "vae_decoder", 0.10)],
)
def test_weights_in_half_precision_are_as_large_as_the_released_ones(model, component, gigabytes):
    assert counted(model, component, MODELS[model].height).weights * 2 / 1e9 == pytest.approx(gigabytes, abs=0.005)


def test_of_a_table_of_embeddings_a_call_reads_next_to_nothing():
    tables = (49408 + 77) * 768
    assert counted("sd15", "text_encoder", 512).weights == 123_060_480 - tables


def test_more_images_are_as_much_more_work_with_the_same_weights():
    one, eight = counted("sd15", "unet", 512), counted("sd15", "unet", 512, 8)
    assert eight.flops == pytest.approx(8 * one.flops, rel=1e-4)  # the time is embedded once
    assert (eight.weights, eight.tensors - 1) == (one.weights, 8 * (one.tensors - 1))


@pytest.mark.parametrize(
    ("model", "on_h100_ms", "on_h200_ms"), [("sd15", 2.27, 2.13), ("sd21", 5.68, 5.53), ("sdxl", 17.51, 17.32)]
)
def test_the_floor_of_a_guided_unet_call_is_the_roofline_that_was_computed_by_hand(model, on_h100_ms, on_h200_ms):
    part = Part(counted(model, "unet", MODELS[model].height), 1, "float16")
    found = [floor_of([part], peaks=peaks, basis="measured", bound=None) for peaks in (H100, H200)]
    assert [floor.seconds * 1000 for floor in found] == pytest.approx([on_h100_ms, on_h200_ms], abs=0.006)


def test_an_attention_is_one_kernel_however_it_is_called():
    class Attends(torch.nn.Module):
        def forward(self, query, key):
            plain = torch.nn.functional.scaled_dot_product_attention(query, key, key)
            named = torch.nn.functional.scaled_dot_product_attention(query, key=key, value=key, is_causal=False)
            return plain + named

    sizes = (2, 4, 10, 16), (2, 4, 6, 16)
    ((key, launches),) = work._kernels(Attends(), [torch.empty(size, device="meta") for size in sizes]).items()
    assert (key, launches) == (("attention", 2 * 2 * 2 * 4 * 10 * 6 * 16, 2 * 4 * 16 * (10 + 6 + 6 + 10)), 2)
