"""What users write: functions that return a pipeline, right and wrong ones. `OWN_PIPELINE` names a diffusers folder."""

from __future__ import annotations

import itertools
import os
from typing import Any

import diffusers
import torch
from diffusers.models.attention_processor import Attention, AttnProcessor

SEEDS = itertools.count()


def make(kind: Any = diffusers.StableDiffusionPipeline, **options: Any) -> Any:
    given = {"safety_checker": None} if kind is not diffusers.StableDiffusionXLPipeline else {}
    return kind.from_pretrained(os.environ["OWN_PIPELINE"], local_files_only=True, **{**given, **options})


def make_xl() -> Any:
    return make(diffusers.StableDiffusionXLPipeline)


def optimized() -> Any:
    pipeline = make().to(torch.bfloat16)
    pipeline.scheduler = diffusers.EulerDiscreteScheduler.from_config(pipeline.scheduler.config)
    pipeline.unet.to(memory_format=torch.channels_last)
    pipeline.fuse_qkv_projections(vae=False)
    pipeline.vae.set_attn_processor(AttnProcessor())
    return pipeline


def compiled() -> Any:
    pipeline = optimized()
    pipeline.unet = torch.compile(pipeline.unet, backend="eager")
    return pipeline


# ---------------------------------------------------------------------------- switched on, and in no weight or setting


def with_tiling() -> Any:
    pipeline = make()
    pipeline.vae.enable_tiling()
    pipeline.vae.enable_slicing()
    # What the released autoencoder does beyond 512 pixels, this one does at 64.
    pipeline.vae.tile_sample_min_size, pipeline.vae.tile_latent_min_size = 32, 4
    return pipeline


def with_free_u() -> Any:
    pipeline = make()
    pipeline.enable_freeu(s1=0.9, s2=0.2, b1=1.5, b2=1.6)
    return pipeline


def with_both_switched_off_again() -> Any:
    pipeline = with_tiling()
    pipeline.vae.disable_tiling()
    pipeline.vae.disable_slicing()
    pipeline.enable_freeu(s1=0.9, s2=0.2, b1=1.5, b2=1.6)
    pipeline.disable_freeu()
    return pipeline


# ------------------------------------------------------------------------------------------------- own schedulers

BETAS = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"}


def clipping() -> Any:
    """Settings that the constructor of a pipeline would correct."""
    pipeline = make()
    pipeline.scheduler = diffusers.DDIMScheduler(**BETAS)
    return pipeline


def corrected() -> Any:
    """Settings that the constructor of a pipeline did correct."""
    return make(scheduler=diffusers.DDIMScheduler(**BETAS))


def without_offset() -> Any:
    pipeline = make()
    pipeline.scheduler = diffusers.EulerDiscreteScheduler(**BETAS)
    return pipeline


def rescaled() -> Any:
    """Numbers that no setting leads to."""
    pipeline = make()
    pipeline.scheduler = diffusers.DDIMScheduler(**BETAS, clip_sample=False, steps_offset=1)
    pipeline.scheduler.alphas_cumprod = pipeline.scheduler.alphas_cumprod**1.2
    return pipeline


def called_before() -> Any:
    pipeline = clipping()
    pipeline("a horse", num_inference_steps=3, height=64, width=64, output_type="latent")
    return pipeline


# ------------------------------------------------------------------------------------------------- silent faults


class Unguided(diffusers.StableDiffusionPipeline):
    @property
    def do_classifier_free_guidance(self) -> bool:
        return False


class Rescheduled(diffusers.StableDiffusionPipeline):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.scheduler = diffusers.DDIMScheduler.from_config(self.scheduler.config)
        return super().__call__(*args, **kwargs)


def without_guidance() -> Any:
    return make(Unguided)


def with_another_scheduler() -> Any:
    return make(Rescheduled)


def with_wrong_attention_scale() -> Any:
    pipeline = make()
    pipeline.unet.set_attn_processor(AttnProcessor())
    for module in pipeline.unet.modules():
        if isinstance(module, Attention):
            module.scale *= 1.01
    return pipeline


def with_unscaled_attention() -> Any:
    pipeline = make()
    pipeline.unet.set_attn_processor(AttnProcessor())
    for module in pipeline.unet.modules():
        if isinstance(module, Attention):
            module.scale = 1.0
    return pipeline


def with_a_norm_left_out() -> Any:
    pipeline = make()
    pipeline.unet.conv_norm_out.forward = lambda hidden: hidden
    return pipeline


def half_xl() -> Any:
    return make_xl().to(torch.float16)


def half_xl_that_lost_its_upcast() -> Any:
    pipeline = half_xl()
    pipeline.vae.register_to_config(force_upcast=False)
    return pipeline


# ---------------------------------------------------------------------------------------------- what is refused


def drawn_anew() -> Any:
    """As tensors that nobody filled: other numbers each time that it is made."""
    pipeline = make()
    torch.nn.init.normal_(pipeline.unet.conv_out.weight, generator=torch.Generator().manual_seed(next(SEEDS)))
    return pipeline


def raises() -> Any:
    raise ValueError("no weights here")


# What `.to("cuda")` raises with torch's build for CPUs, and with one for CUDA where there is no driver.
def wants_a_gpu() -> Any:
    raise AssertionError("Torch not compiled with CUDA enabled")


def wants_a_driver() -> Any:
    raise RuntimeError(
        "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver from "
        "http://www.nvidia.com/Download/index.aspx"
    )


def takes_all_memory() -> Any:
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")


def needs_an_argument(device: str) -> Any:
    return make().to(device)


def returns_a_dict() -> Any:
    return {"unet": None}


def image_to_image() -> Any:
    return make(diffusers.StableDiffusionImg2ImgPipeline)


def with_an_adapter() -> Any:
    pipeline = make()
    projection = pipeline.unet.mid_block.attentions[0].proj_in
    projection.lora_A = torch.nn.Conv2d(projection.in_channels, 4, 1)
    return pipeline


def quantized() -> Any:
    pipeline = make()
    weight = pipeline.unet.conv_in.weight
    pipeline.unet.conv_in.weight = torch.nn.Parameter(weight.to(torch.int8), requires_grad=False)
    return pipeline


def offloaded() -> Any:
    pipeline = make()
    pipeline.unet.conv_in.to("meta")
    return pipeline


def without_a_weight() -> Any:
    pipeline = make()
    pipeline.unet.conv_in.bias = None
    return pipeline


class Elsewhere(diffusers.StableDiffusionPipeline):
    _execution_device = torch.device("cuda", 0)


def on_a_gpu() -> Any:
    return make(Elsewhere)


class ByHand:
    pass


def with_a_scheduler_of_its_own() -> Any:
    pipeline = make()
    pipeline.scheduler = ByHand()
    return pipeline


def with_a_part_of_its_own() -> Any:
    pipeline = make()
    pipeline.vae = torch.nn.Sequential()
    return pipeline


def drawing_noise() -> Any:
    pipeline = make()
    pipeline.scheduler = diffusers.EulerAncestralDiscreteScheduler.from_config(pipeline.scheduler.config)
    return pipeline


def censored() -> Any:
    class Checked(diffusers.StableDiffusionPipeline):
        def run_safety_checker(self, image: torch.Tensor, device: Any, dtype: Any) -> Any:
            return torch.zeros_like(image), [True] * len(image)

    return make(Checked)


# ---------------------------------------------------------------------------------------- faults of the second call


class Remembering(diffusers.StableDiffusionPipeline):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not hasattr(self, "answer"):
            self.answer = super().__call__(*args, **kwargs)
        return self.answer


class OneBuffer(diffusers.StableDiffusionPipeline):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        answer = super().__call__(*args, **kwargs)
        if not hasattr(self, "buffer"):
            self.buffer = answer.images.clone()
        answer.images = self.buffer.copy_(answer.images)
        return answer


class Mixing(diffusers.StableDiffusionPipeline):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        answer = super().__call__(*args, **kwargs)
        answer.images = 0.99 * answer.images + 0.01 * answer.images.roll(1, 0)
        return answer


def that_remembers() -> Any:
    return make(Remembering)


def with_one_buffer() -> Any:
    return make(OneBuffer)


def that_mixes_its_batch() -> Any:
    return make(Mixing)
