"""diffusers and transformers models as modules with positional inputs and a tuple of outputs.

Classes are made inside functions because a worker reads this package without having torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def wrap_unet(config: dict[str, Any], *, added_conditions: bool) -> torch.nn.Module:
    """Build `UNet2DConditionModel` as `unet` of a module."""
    import torch
    from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel

    class TextUNet(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.unet = UNet2DConditionModel(**config)

        def forward(
            self, sample: torch.Tensor, timestep: torch.Tensor, encoder_hidden_states: torch.Tensor
        ) -> tuple[torch.Tensor]:
            return (self.unet(sample, timestep, encoder_hidden_states, return_dict=False)[0],)

    class TextTimeUNet(TextUNet):
        def forward(  # type: ignore[override]  # two more inputs than the plain UNet
            self,
            sample: torch.Tensor,
            timestep: torch.Tensor,
            encoder_hidden_states: torch.Tensor,
            text_embeds: torch.Tensor,
            time_ids: torch.Tensor,
        ) -> tuple[torch.Tensor]:
            added = {"text_embeds": text_embeds, "time_ids": time_ids}
            result = self.unet(sample, timestep, encoder_hidden_states, added_cond_kwargs=added, return_dict=False)
            return (result[0],)

    return TextTimeUNet() if added_conditions else TextUNet()


def wrap_text_encoder(config: dict[str, Any], results: tuple[str, ...]) -> torch.nn.Module:
    """Build `CLIPTextModel`, or `CLIPTextModelWithProjection` where `text_embeds` is wanted, as `text_encoder`."""
    import torch
    from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

    class PromptEncoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            kind = CLIPTextModelWithProjection if "text_embeds" in results else CLIPTextModel
            self.text_encoder = kind(CLIPTextConfig(**config))

        def forward(self, input_ids: torch.Tensor) -> tuple[torch.Tensor, ...]:
            deep = "penultimate_hidden_state" in results
            found = self.text_encoder(input_ids=input_ids, output_hidden_states=deep)
            return tuple(
                found.hidden_states[-2] if name == "penultimate_hidden_state" else getattr(found, name)
                for name in results
            )

    return PromptEncoder()


def wrap_vae_decoder(config: dict[str, Any]) -> torch.nn.Module:
    """Build the decoding half of `AutoencoderKL`."""
    import torch
    from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL

    class VaeDecoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            vae = AutoencoderKL(**config)
            self.post_quant_conv = vae.post_quant_conv
            self.decoder = vae.decoder

        def forward(self, latent_sample: torch.Tensor) -> tuple[torch.Tensor]:
            return (self.decoder(self.post_quant_conv(latent_sample)),)

    return VaeDecoder()


def wrap_vae_encoder(config: dict[str, Any]) -> torch.nn.Module:
    """Build the encoding half of `AutoencoderKL`."""
    import torch
    from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL

    class VaeEncoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            vae = AutoencoderKL(**config)
            self.encoder = vae.encoder
            self.quant_conv = vae.quant_conv

        def forward(self, sample: torch.Tensor) -> tuple[torch.Tensor]:
            return (self.quant_conv(self.encoder(sample)),)

    return VaeEncoder()
