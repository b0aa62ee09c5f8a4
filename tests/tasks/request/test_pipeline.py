from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pytest_sdperf.core.components import component_dtype, needed_components
from pytest_sdperf.core.schedulers import make_scheduler
from pytest_sdperf.core.values import Workload
from pytest_sdperf.models import sd15, sdxl
from pytest_sdperf.models._stable_diffusion import StableDiffusion
from pytest_sdperf.tasks.request.prompts import Call
from pytest_sdperf.tasks.request.text_to_image import TextToImage, draw_noise, rounded_otherwise

SD15 = next(model for model in sd15.MODELS if model.name == "sd15-thin")
SDXL, REFINER = (
    next(model for model in sdxl.MODELS if model.name == name) for name in ("sdxl-thin", "sdxl-refiner-thin")
)
PROMPT = "a photo of an astronaut riding a horse on mars"
pytestmark = pytest.mark.filterwarnings(
    # diffusers' Euler and UniPC call numpy.array on tensors.
    "ignore:__array__ implementation doesn't accept a copy keyword:DeprecationWarning"
)


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Threads wait for each other on a busy machine: these small tensors then take twenty times as long."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Built:
    """A thin model with weights, ready to be called by component, here and by diffusers."""

    def __init__(self, model: StableDiffusion, folder: Path, dtype: str) -> None:
        self.model, self.folder, self.dtype = model, folder, dtype
        model.write_tokenizers(folder, weights=None)
        self.modules: dict[str, Any] = {}
        for name in model.components:
            path = folder / f"{name}.safetensors"
            model.draw_weights(name, path)
            self.modules[name] = model.module(name, weights=path, dtype=dtype)

    def call(self, component: str) -> Call:
        inputs = [spec.name for spec in self.model.inputs(component, Workload())]
        outputs = [spec.name for spec in self.model.outputs(component, Workload())]
        module = self.modules[component]
        return lambda tensors: dict(zip(outputs, module(*[tensors[name] for name in inputs]), strict=True))

    def pipeline(self) -> TextToImage:
        call = {name: self.call(name) for name in needed_components(self.model)}
        return TextToImage(self.model, call, tokenizers=self.folder, dtype=self.dtype, device="cpu")

    def vae(self) -> Any:
        from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL

        vae = AutoencoderKL(**self.model.config("vae_decoder")).to(getattr(torch, self.dtype))
        vae.load_state_dict({**self.modules["vae_decoder"].state_dict(), **self.modules["vae_encoder"].state_dict()})
        return vae.eval()

    def tokenizer(self, name: str) -> Any:
        from transformers import CLIPTokenizer

        return CLIPTokenizer.from_pretrained(str(self.folder / name))


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Built:
    return Built(SD15, tmp_path_factory.mktemp("sd15"), "float64")


def close(obtained: torch.Tensor, reference: torch.Tensor) -> bool:
    return float((obtained - reference).norm() / reference.norm()) < 1e-10


@pytest.mark.parametrize(
    "scheduler", ["pndm", "ddim", *(pytest.param(name, marks=pytest.mark.slow) for name in ("euler", "unipc"))]
)
def test_sd15_makes_the_image_that_diffusers_makes(scheduler, built):
    diffusers: Any = importlib.import_module("diffusers")

    pipe = diffusers.StableDiffusionPipeline(
        vae=built.vae(),
        text_encoder=built.modules["text_encoder"].text_encoder,
        tokenizer=built.tokenizer("tokenizer"),
        unet=built.modules["unet"].unet,
        scheduler=make_scheduler(scheduler, SD15.config("scheduler")),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )
    pipe.set_progress_bar_config(disable=True)
    expected = pipe(
        [PROMPT, "a cat"],
        negative_prompt=["blurry"] * 2,
        height=64,
        width=64,
        num_inference_steps=3,
        latents=draw_noise((2, 4, 8, 8), 7).double(),
        output_type="latent",
    ).images
    workload = Workload(batch_size=2, height=64, width=64, steps=3, scheduler=scheduler)
    result = built.pipeline().generate([PROMPT, "a cat"], negative_prompt="blurry", seed=7, workload=workload)
    # Euler computes in float32 inside: what differs before it by one rounding may differ after it.
    assert close(result.latents, expected) or (scheduler == "euler" and torch.allclose(result.latents, expected))
    with torch.no_grad():
        image = pipe.vae.decode(expected / 0.18215).sample
    assert torch.allclose(result.image, image, rtol=1e-4, atol=1e-4)
    assert tuple(result.image.shape) == (2, 3, 64, 64)


@pytest.mark.slow
def test_sdxl_makes_the_image_that_diffusers_makes(tmp_path):
    diffusers: Any = importlib.import_module("diffusers")

    built = Built(SDXL, tmp_path, "float32")
    pipe = diffusers.StableDiffusionXLPipeline(
        vae=built.vae(),
        text_encoder=built.modules["text_encoder"].text_encoder,
        text_encoder_2=built.modules["text_encoder_2"].text_encoder,
        tokenizer=built.tokenizer("tokenizer"),
        tokenizer_2=built.tokenizer("tokenizer_2"),
        unet=built.modules["unet"].unet,
        scheduler=make_scheduler("euler", SDXL.config("scheduler")),
        add_watermarker=False,
    )
    pipe.set_progress_bar_config(disable=True)
    expected = pipe(
        PROMPT,
        negative_prompt="",
        height=64,
        width=128,
        num_inference_steps=3,
        guidance_scale=7.5,
        latents=draw_noise((1, 4, 8, 16), 7),
        output_type="latent",
    ).images
    workload = Workload(height=64, width=128, steps=3, scheduler="euler")
    result = built.pipeline().generate([PROMPT], seed=7, workload=workload)
    assert torch.allclose(result.latents, expected, rtol=1e-3, atol=1e-3)
    assert float((result.latents - expected).norm() / expected.norm()) < 1e-5


@pytest.mark.slow
def test_the_refiner_makes_the_image_that_diffusers_makes(tmp_path):
    diffusers: Any = importlib.import_module("diffusers")

    built = Built(REFINER, tmp_path, "float32")
    pipe = diffusers.StableDiffusionXLImg2ImgPipeline(
        vae=built.vae(),
        text_encoder=None,
        text_encoder_2=built.modules["text_encoder_2"].text_encoder,
        tokenizer=None,
        tokenizer_2=built.tokenizer("tokenizer_2"),
        unet=built.modules["unet"].unet,
        scheduler=make_scheduler("euler", REFINER.config("scheduler")),
        requires_aesthetics_score=True,
        add_watermarker=False,
    )
    pipe.set_progress_bar_config(disable=True)
    start, noise = draw_noise((1, 4, 8, 8), 3), draw_noise((1, 4, 8, 8), 7)

    def given_noise(shape: object, **_: object) -> torch.Tensor:
        return noise

    with pytest.MonkeyPatch.context() as patch:
        module = "diffusers.pipelines.stable_diffusion_xl.pipeline_stable_diffusion_xl_img2img"
        patch.setattr(f"{module}.randn_tensor", given_noise)
        expected = pipe(
            PROMPT,
            image=start,
            negative_prompt="",
            strength=0.5,
            num_inference_steps=4,
            guidance_scale=7.5,
            original_size=(64, 64),
            target_size=(64, 64),
            output_type="latent",
        ).images
    workload = Workload(height=64, width=64, steps=4, scheduler="euler")
    result = built.pipeline().generate([PROMPT], seed=7, workload=workload, start=start, strength=0.5)
    assert result.unet_calls == 2
    assert float((result.latents - expected).norm() / expected.norm()) < 1e-5


def fake_call(component: str) -> Call:
    """Answer at once with tensors of the right shape: what is counted is the pipeline's doing."""

    def answer(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        first = next(iter(inputs.values()))
        if component == "unet":
            return {"out_sample": 0.5 * inputs["sample"]}
        if component == "vae_decoder":
            return {"sample": first.repeat_interleave(8, 2).repeat_interleave(8, 3)[:, :3]}
        return {"last_hidden_state": torch.ones(len(first), 77, 96)}

    return answer


@pytest.fixture(scope="module")
def light(tmp_path_factory) -> TextToImage:
    folder = tmp_path_factory.mktemp("tokenizers")
    SD15.write_tokenizers(folder, weights=None)
    call = {name: fake_call(name) for name in needed_components(SD15)}
    return TextToImage(SD15, call, tokenizers=folder, dtype="float32", device="cpu")


@pytest.mark.parametrize(("scheduler", "calls"), [("pndm", 51), ("ddim", 50), ("euler", 50), ("unipc", 50)])
def test_unet_calls_are_counted(scheduler, calls, light):
    seen: list[tuple[int, float, tuple[int, ...]]] = []
    workload = Workload(height=64, width=64, steps=50, scheduler=scheduler)
    result = light.generate(
        ["a cat"], seed=0, workload=workload, on_step=lambda *step: seen.append((step[0], step[1], step[2].shape))
    )
    assert result.unet_calls == calls
    assert [index for index, _, _ in seen] == list(range(calls))
    assert all(shape == (1, 4, 8, 8) for _, _, shape in seen)
    assert seen[0][1] > seen[-1][1]


def test_the_first_images_of_a_batch_do_not_depend_on_its_size():
    assert torch.equal(draw_noise((1, 4, 8, 8), 5), draw_noise((3, 4, 8, 8), 5)[:1])
    assert not torch.equal(draw_noise((1, 4, 8, 8), 5), draw_noise((1, 4, 8, 8), 6))
    assert np.isclose(float(draw_noise((4, 4, 64, 64), 0).std()), 1, atol=0.02)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_another_rounding_is_one_that_the_dtype_can_hardly_tell(dtype):
    noise = draw_noise((2, 4, 8, 8), seed=0)
    others = [rounded_otherwise(noise, number, dtype) for number in (1, 2, 1)]
    assert torch.equal(others[0], others[2])
    assert not torch.equal(others[0], others[1])
    moved = ((others[0] - noise) / noise).abs()
    assert 0 < moved.max() <= torch.finfo(dtype).eps / 2 + torch.finfo(torch.float32).eps
    steps = (others[0].to(dtype).double() - noise.to(dtype).double()).abs() / noise.to(dtype).double().abs()
    assert steps.max() <= torch.finfo(dtype).eps * (1 + torch.finfo(dtype).eps)  # the same value, or its neighbour


def test_a_rounding_is_taken_where_no_noise_is_given(light):
    workload = Workload(width=64, height=64, steps=1)
    images = [light.generate(["a"], seed=0, workload=workload, rounding=number).latents for number in (0, 0, 1)]
    assert torch.equal(images[0], images[1])
    assert not torch.equal(images[0], images[2])
    assert torch.allclose(images[0], images[2], rtol=1e-4, atol=1e-4)


def test_prompts_and_batch_size_must_agree(light):
    with pytest.raises(ValueError) as caught:
        light.generate(["a cat"], seed=0, workload=Workload(batch_size=2))
    assert str(caught.value) == "1 prompts for a batch size of 2"


def test_results_survive_an_engine_that_writes_into_the_same_memory(tmp_path):
    SD15.write_tokenizers(tmp_path, weights=None)
    memory = torch.empty(1, 77, 96)
    calls: list[dict[str, torch.Tensor]] = []

    def encode(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        memory[:] = inputs["input_ids"][:, :, None].float()
        return {"last_hidden_state": memory}

    def unet(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        calls.append(inputs)
        return {"out_sample": inputs["sample"]}

    call = {"text_encoder": encode, "unet": unet, "vae_decoder": fake_call("vae_decoder")}
    pipeline = TextToImage(SD15, call, tokenizers=tmp_path, dtype="float32", device="cpu")
    pipeline.generate(["a cat"], seed=0, workload=Workload(height=64, width=64, steps=1, scheduler="ddim"))
    negative, positive = calls[0]["encoder_hidden_states"]
    assert not torch.equal(negative, positive)
    assert calls[0]["timestep"].dtype == torch.float32


@pytest.mark.parametrize(
    ("model", "dtype", "expected"),
    [
        (SDXL, "float16", "float32"),
        (SDXL, "bfloat16", "bfloat16"),
        (SDXL, "float32", "float32"),
        (SD15, "float16", "float16"),
    ],
)
def test_an_autoencoder_that_overflows_in_half_precision_runs_in_single(model, dtype, expected):
    assert component_dtype(model, "vae_decoder", dtype) == expected
    assert component_dtype(model, "unet", dtype) == dtype
