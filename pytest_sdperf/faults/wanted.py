"""What is typed to see a fault, and what is said of it; shared by the areas.

The model is the small trained one: it has every block and layer of Stable Diffusion 1.5 and is built in seconds.
"""

from __future__ import annotations

from pytest_sdperf.faults.fault import FAILED, Detection

_ORT = "--model=shapes --engine=ort-cpu"
# Every optimization, in half precision as on a GPU; without fp16 the same graph is float32, which sees smaller faults.
UNET_HALF = f"{_ORT} --component=unet --optimization=bias-add"
UNET_SINGLE = f"{_ORT} --component=unet --optimization=all-fp16"
DECODER_HALF = f"{_ORT} --component=vae_decoder --optimization=bias-add"
DECODER_SINGLE = f"{_ORT} --component=vae_decoder --optimization=fp32"
# What is counted there needs no engine.
FUSED_DECODER = "--model=shapes --component=vae_decoder --optimization=bias-add --fuser=native"
TEXT_HALF = f"{_ORT} --component=text_encoder --optimization=bias-add"
OTHER_TEXT_HALF = TEXT_HALF.replace("shapes", "sd21-thin")  # with another GELU and an even number of heads
# The smallest component, as it was exported: what goes wrong outside of the graph shows there as well.
TEXT_RAW = f"{_ORT} --component=text_encoder --optimization=fp32"
# Whole requests by torch: there is nothing to export, and what is planted into a call is the same for every engine.
REQUEST = "--model=shapes --engine=torch --component=pipeline --optimization=fp32 --steps=4 --resolution=64x64"
# Whose scores are stored, at the usual steps.
STORED_PICTURES = "--engine=torch --optimization=fp32 --prompts=4 --batch-size=4"
# Half of the usual steps: they draw as well, and what is wrong in one is wrong in all of them.
PICTURES = f"{STORED_PICTURES} --steps=10"
MEASURED = f"{TEXT_RAW} --processes=1 --max-processes=1"
TWICE = f"{TEXT_RAW} --processes=2 --max-processes=2"  # for what only processes beside each other show
ON_GPU = MEASURED.replace("ort-cpu", "ort-cuda").replace("fp32", "fp16") + " --gpu=auto"
# Cases of their own: where a baseline has three processes, noise may regress what others measure with one.
TIMED = f"{TEXT_RAW.replace('ort-cpu', 'ort-cpu:threads=1')} --processes=3 --max-processes=3"
TIMED_ON_GPU = MEASURED.replace("ort-cpu", "ort-cuda").replace("processes=1", "processes=3") + " --gpu=auto"

UNET, TEXT_ENCODER, DECODER = "unet", "text_encoder", "vae_decoder"
_OUTPUTS = {UNET: "out_sample", TEXT_ENCODER: "last_hidden_state", DECODER: "sample"}
_WIDER = {"float16": "float32", "float32": "float64"}


def too_far(component: str, dtype: str) -> Detection:
    """Return how a component is found whose outputs are finite and too far from the reference."""
    words = (
        f"The component has a relative L2 error # against torch {_WIDER[dtype]}; plain torch {dtype} has #, so "
        f"at most # passes; the worst element is {_OUTPUTS[component]}[...]."
    )
    return Detection("agreement", FAILED, words, "component")


def not_comparable(culprit: str) -> Detection:
    """Return how a component is found whose outputs cannot be compared."""
    return Detection("agreement", FAILED, f"The component is not comparable: {culprit}.", "component")


def parts_at(step: str) -> Detection:
    """Return how a request is found whose latents leave the reference at a step."""
    words = (
        f"The latents part from torch float64 at step {step} of 4: relative L2 error #, and plain torch float32 has # "
        f"there in the worst of # roundings, so at most # passes. The error was ..."
    )
    return Detection("agreement", FAILED, words, "steps")


def invalid(code: str, words: str, *, by: str = "pipelines") -> Detection:
    """Return how a measurement is found that must not be judged."""
    return Detection(by, "INVALID", words, code)


def failed(code: str, words: str, *, by: str = "pipelines") -> Detection:
    """Return how something is found that is wrong whatever was stored."""
    return Detection(by, FAILED, words, code)


def regressed(code: str, words: str, *, by: str = "pipelines") -> Detection:
    """Return how something is found that became worse."""
    return Detection(by, "REGRESSED", words, code)
