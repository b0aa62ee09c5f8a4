"""The norms of a torch module and what feeds each: an addition before a norm can become part of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_sdperf.fusing.expected.sites import children_of, join, modules_of

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Norm:
    """A normalization and what feeds it.

    Attributes:
        path: Module path, such as `down_blocks.0.resnets.0.norm1`.
        after_sum: Whether its input is the sum of two activations, so that the addition can fuse into it.
        rank: Rank of the tensor that it normalises: 4 for images, 3 for sequences.
        silu: Whether a SiLU follows it, which can fuse into it.
    """

    path: str
    after_sum: bool
    rank: int
    silu: bool = False


def layer_norms(root: torch.nn.Module) -> list[Norm]:
    """Return the LayerNorms of transformer blocks and CLIP encoders."""
    norms: list[Norm] = []
    for path, transformer in modules_of(root, "Transformer2DModel"):
        # The projection into the transformer feeds its first norm, a residual sum every later one.
        own = [
            join(block_path, name)
            for block_path, block in children_of(transformer, "transformer_blocks", path)
            for name in ("norm1", "norm2", "norm3")
            if getattr(block, name, None) is not None
        ]
        norms.extend(Norm(name, after_sum=index > 0, rank=3) for index, name in enumerate(own))
    for path, encoder in modules_of(root, "CLIPEncoder"):
        for index, (layer_path, layer) in enumerate(children_of(encoder, "layers", path)):
            if hasattr(layer, "layer_norm1"):
                # The embeddings are a sum too, but with a constant: there is no activation to skip over.
                norms.append(Norm(join(layer_path, "layer_norm1"), after_sum=index > 0, rank=3))
                norms.append(Norm(join(layer_path, "layer_norm2"), after_sum=True, rank=3))
    for path, _ in modules_of(root, "LayerNorm"):
        if path.rpartition(".")[2] == "final_layer_norm":
            norms.append(Norm(path, after_sum=True, rank=3))
    return norms


def group_norms(root: torch.nn.Module) -> list[Norm]:
    """Return the GroupNorms of UNets, VAE decoders and VAE encoders, in the order of the data flow."""
    norms: list[Norm] = []
    for path, part in modules_of(root, "UNet2DConditionModel", "Decoder", "Encoder"):
        walk = _ImageWalk()
        unet, decoder = type(part).__name__ == "UNet2DConditionModel", type(part).__name__ == "Decoder"
        down, up = children_of(part, "down_blocks", path), children_of(part, "up_blocks", path)
        middle = [(join(path, "mid_block"), part.mid_block)]
        walk.through([*middle, *up] if decoder else [*down, *middle], concatenates=False)
        if unet:
            walk.through(up, concatenates=True)
        walk.add(join(path, "conv_norm_out"), after_sum=walk.after_sum, before=part.conv_act)
        norms.extend(walk.norms)
    return norms


class _ImageWalk:
    """Follows the image through blocks; `after_sum` says whether the image is a residual sum at this point."""

    def __init__(self) -> None:
        self.norms: list[Norm] = []
        self.after_sum = False

    def add(self, path: str, *, after_sum: bool, rank: int = 4, before: Any = None) -> None:
        """Add a norm, with the activation that it stands before."""
        self.norms.append(Norm(path, after_sum, rank, silu=type(before).__name__ == "SiLU"))

    def through(self, blocks: Iterable[tuple[str, Any]], *, concatenates: bool) -> None:
        """Follow blocks; those of a UNet's way up concatenate a skip connection before each resnet."""
        for path, block in blocks:
            attentions = children_of(block, "attentions", path)
            for index, (resnet_path, resnet) in enumerate(children_of(block, "resnets", path)):
                self._resnet(resnet_path, resnet, concatenates=concatenates)
                # In a middle block no attention follows the last resnet.
                if index < len(attentions) and attentions[index][1] is not None:
                    self._attention(*attentions[index])
            if getattr(block, "downsamplers", None) or getattr(block, "upsamplers", None):
                self.after_sum = False

    def _resnet(self, path: str, resnet: Any, *, concatenates: bool) -> None:
        activation = resnet.nonlinearity
        self.add(join(path, "norm1"), after_sum=self.after_sum and not concatenates, before=activation)
        # The time embedding is added between the convolutions; a VAE has none.
        embeds = getattr(resnet, "time_emb_proj", None) is not None
        self.add(join(path, "norm2"), after_sum=embeds, before=activation)
        self.after_sum = True

    def _attention(self, path: str, attention: Any) -> None:
        if getattr(attention, "norm", None) is not None:
            self.add(join(path, "norm"), after_sum=self.after_sum)
        elif getattr(attention, "group_norm", None) is not None:
            # The attention of a VAE normalises the image as a sequence.
            self.add(join(path, "group_norm"), after_sum=self.after_sum, rank=3)
        self.after_sum = True
