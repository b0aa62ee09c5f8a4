"""How many parameters each component has, so that sizes can be told without torch. Data; the tests count again."""

from __future__ import annotations

from collections.abc import Mapping

_VAE = {"vae_decoder": 49_490_199, "vae_encoder": 34_163_664}
_NARROW_VAE = {"vae_decoder": 779_831, "vae_encoder": 541_376}
_SD21 = {"text_encoder": 340_387_840, "unet": 865_910_724, **_VAE}
_NARROW_SD21 = {"text_encoder": 7_289_920, "unet": 34_487_492, **_NARROW_VAE}

PARAMETERS: Mapping[str, Mapping[str, int]] = {
    "sd15": {"text_encoder": 123_060_480, "unet": 859_520_964, **_VAE},
    "sd15-thin": {"text_encoder": 1_447_968, "unet": 34_168_004, **_NARROW_VAE},
    "sd21": _SD21,
    "sd21-base": _SD21,
    "sd21-thin": _NARROW_SD21,
    "sd21-base-thin": _NARROW_SD21,
    "sdxl": {"text_encoder": 123_060_480, "text_encoder_2": 694_659_840, "unet": 2_567_463_684, **_VAE},
    "sdxl-refiner": {"text_encoder_2": 694_659_840, "unet": 2_259_526_660, **_VAE},
    "sdxl-thin": {"text_encoder": 1_447_968, "text_encoder_2": 14_484_288, "unet": 98_862_852, **_NARROW_VAE},
    "sdxl-refiner-thin": {"text_encoder_2": 14_484_288, "unet": 62_539_268, **_NARROW_VAE},
    "shapes": {"text_encoder": 688_464, "unet": 5_625_252, **_NARROW_VAE},
}
