"""Places in a torch module where an optimization can take hold, found by class names and known wiring.

Counts come from here and not from a table, so that a new model is counted without anyone typing numbers. Modules are
recognised by the names of their classes in diffusers and transformers, which need not be imported for that. The
module may be on the meta device.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

# A convolution, linear layer or embedding feeds the norm, or a concatenation does.
FRESH = False
# The sum of a block and its residual feeds it.
RESIDUAL_SUM = True


@dataclass(frozen=True)
class Norm:
    """A normalization and what feeds it.

    Attributes:
        path: Module path, such as `down_blocks.0.resnets.0.norm1`.
        after_sum: Whether its input is the sum of two activations, so that the addition can fuse into it.
        rank: Rank of the tensor that it normalises: 4 for images, 3 for sequences.
    """

    path: str
    after_sum: bool
    rank: int


def modules_of(root: torch.nn.Module, *class_names: str) -> list[tuple[str, torch.nn.Module]]:
    """Return path and module of every sub-module whose class has one of these names, in module order."""
    return [(path, part) for path, part in root.named_modules() if type(part).__name__ in class_names]


def layer_norms(root: torch.nn.Module) -> list[Norm]:
    """Return the LayerNorms of transformer blocks and CLIP encoders."""
    norms: list[Norm] = []
    for path, transformer in modules_of(root, "Transformer2DModel"):
        after_sum = FRESH
        for block_path, block in _children(transformer, "transformer_blocks", path):
            for name in ("norm1", "norm2", "norm3"):
                if getattr(block, name, None) is not None:
                    norms.append(Norm(f"{block_path}.{name}", after_sum, 3))
                    after_sum = RESIDUAL_SUM
    for path, encoder in modules_of(root, "CLIPEncoder"):
        for index, (layer_path, _) in enumerate(_children(encoder, "layers", path)):
            # The embeddings are a sum too, but with a constant: no activation to skip over.
            norms.append(Norm(f"{layer_path}.layer_norm1", index > 0, 3))
            norms.append(Norm(f"{layer_path}.layer_norm2", RESIDUAL_SUM, 3))
    for path, part in root.named_modules():
        if path.rpartition(".")[2] == "final_layer_norm" and type(part).__name__ == "LayerNorm":
            norms.append(Norm(path, RESIDUAL_SUM, 3))
    return norms


def group_norms(root: torch.nn.Module) -> list[Norm]:
    """Return the GroupNorms of UNets, VAE decoders and VAE encoders, in the order of the data flow."""
    norms: list[Norm] = []
    for path, part in modules_of(root, "UNet2DConditionModel", "Decoder", "Encoder"):
        walk = _ImageWalk(path)
        if type(part).__name__ == "Decoder":
            walk.blocks([part.mid_block], ["mid_block"], concatenates=False)
            walk.blocks(list(part.up_blocks), _names("up_blocks", part.up_blocks), concatenates=False)
        else:
            walk.blocks(list(part.down_blocks), _names("down_blocks", part.down_blocks), concatenates=False)
            walk.blocks([part.mid_block], ["mid_block"], concatenates=False)
        if type(part).__name__ == "UNet2DConditionModel":
            walk.blocks(list(part.up_blocks), _names("up_blocks", part.up_blocks), concatenates=True)
        walk.norm("conv_norm_out", walk.after_sum)
        norms.extend(walk.norms)
    return norms


def geglus(root: torch.nn.Module) -> list[str]:
    """Return the paths of the GEGLU activations."""
    return [path for path, _ in modules_of(root, "GEGLU")]


def convolutions(root: torch.nn.Module) -> list[str]:
    """Return the paths of the two-dimensional convolutions."""
    return [path for path, part in root.named_modules() if _is_a(part, "Conv2d")]


def attentions(root: torch.nn.Module) -> list[tuple[str, str]]:
    """Return path and kind (`self`, `cross`, `causal`) of each multi-head attention that a fused kernel can run.

    The attention of a VAE's middle block has one head as wide as its channels (512), which no fused kernel takes.
    """
    found = []
    for path, block in modules_of(root, "BasicTransformerBlock"):
        found.append((f"{path}.attn1", "self"))
        if getattr(block, "attn2", None) is not None:
            found.append((f"{path}.attn2", "cross"))
    return found + [(path, "causal") for path, _ in modules_of(root, "CLIPAttention", "CLIPSdpaAttention")]


def transformers_with_residual_output(root: torch.nn.Module) -> list[str]:
    """Return the paths of the feed-forward outputs whose bias and residual meet no norm: the last of each stack."""
    paths = []
    for path, transformer in modules_of(root, "Transformer2DModel"):
        blocks = _children(transformer, "transformer_blocks", path)
        if blocks:
            paths.append(f"{blocks[-1][0]}.ff")
    return paths


def clip_activations(root: torch.nn.Module) -> dict[str, int]:
    """Return how often each activation function (`quick_gelu`, `gelu`) occurs in CLIP encoders."""
    counts: dict[str, int] = {}
    for _, part in modules_of(root, "CLIPMLP"):
        name = str(part.config.hidden_act)
        counts[name] = counts.get(name, 0) + 1
    return counts


class _ImageWalk:
    """Follows the image through down, middle and up blocks and notes what feeds each GroupNorm."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.norms: list[Norm] = []
        self.after_sum = FRESH

    def norm(self, name: str, after_sum: bool, *, rank: int = 4) -> None:
        path = f"{self.path}.{name}" if self.path else name
        self.norms.append(Norm(path, after_sum, rank))

    def blocks(self, blocks: Sequence[torch.nn.Module], names: Sequence[str], *, concatenates: bool) -> None:
        for name, block in zip(names, blocks, strict=True):
            self._block(name, block, concatenates=concatenates)

    def _block(self, name: str, block: torch.nn.Module, *, concatenates: bool) -> None:
        resnets = list(getattr(block, "resnets", ()))
        attentions = list(getattr(block, "attentions", None) or ())
        for index, resnet in enumerate(resnets):
            # In a middle block the last resnet has no attention behind it.
            self._resnet(f"{name}.resnets.{index}", resnet, concatenates=concatenates)
            if index < len(attentions) and attentions[index] is not None:
                self._attention(f"{name}.attentions.{index}", attentions[index])
        for sampler in ("downsamplers", "upsamplers"):
            if getattr(block, sampler, None):
                self.after_sum = FRESH

    def _resnet(self, name: str, resnet: torch.nn.Module, *, concatenates: bool) -> None:
        self.norm(f"{name}.norm1", FRESH if concatenates else self.after_sum)
        # The time embedding is added between the convolutions; a VAE has none.
        self.norm(f"{name}.norm2", getattr(resnet, "time_emb_proj", None) is not None)
        self.after_sum = RESIDUAL_SUM

    def _attention(self, name: str, attention: torch.nn.Module) -> None:
        if getattr(attention, "norm", None) is not None:
            self.norm(f"{name}.norm", self.after_sum)
        elif getattr(attention, "group_norm", None) is not None:
            # The attention of a VAE normalises the image as a sequence.
            self.norm(f"{name}.group_norm", self.after_sum, rank=3)
        self.after_sum = RESIDUAL_SUM


def _names(name: str, blocks: Sequence[torch.nn.Module]) -> list[str]:
    return [f"{name}.{index}" for index in range(len(blocks))]


def _children(part: torch.nn.Module, name: str, path: str) -> list[tuple[str, torch.nn.Module]]:
    prefix = f"{path}.{name}" if path else name
    return [(f"{prefix}.{index}", child) for index, child in enumerate(_iterate(part, name))]


def _iterate(part: torch.nn.Module, name: str) -> Iterator[torch.nn.Module]:
    yield from getattr(part, name, None) or ()


def _is_a(part: torch.nn.Module, class_name: str) -> bool:
    return any(base.__name__ == class_name for base in type(part).__mro__)
