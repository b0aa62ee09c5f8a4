"""Places in a torch module where an optimization can take hold, found by class names.

Counts come from here and not from a table, so that a new model is counted without anyone typing numbers. Modules are
recognised by the names of their classes in diffusers and transformers, which need not be imported for that. The
module may be on the meta device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def modules_of(root: torch.nn.Module, *class_names: str) -> list[tuple[str, Any]]:
    """Return path and module of every sub-module whose class has one of these names, in module order."""
    return [(path, part) for path, part in root.named_modules() if type(part).__name__ in class_names]


def children_of(part: Any, name: str, path: str) -> list[tuple[str, Any]]:
    """Return path and module of the items of the module list `name` of a module at `path`; none if it has no list."""
    return [(join(path, f"{name}.{index}"), child) for index, child in enumerate(getattr(part, name, None) or ())]


def join(path: str, name: str) -> str:
    """Join two module paths, either of which may be empty."""
    return f"{path}.{name}" if path and name else path or name


def geglus(root: torch.nn.Module) -> list[str]:
    """Return the paths of the GEGLU activations."""
    return [path for path, _ in modules_of(root, "GEGLU")]


def time_projections(root: torch.nn.Module) -> list[str]:
    """Return the paths of the projections of the time embedding, each of which is added to an image."""
    return [
        join(path, "time_emb_proj")
        for path, part in modules_of(root, "ResnetBlock2D")
        if getattr(part, "time_emb_proj", None) is not None
    ]


def convolutions(root: torch.nn.Module) -> list[str]:
    """Return the paths of the two-dimensional convolutions, those of derived classes included."""
    return [
        path for path, part in root.named_modules() if any(base.__name__ == "Conv2d" for base in type(part).__mro__)
    ]


def attentions(root: torch.nn.Module) -> list[str]:
    """Return the paths of the attentions: of transformer blocks, of a VAE's middle block, of CLIP encoders."""
    return [path for path, _ in modules_of(root, "Attention", "CLIPAttention")]


def packable_attentions(root: torch.nn.Module) -> tuple[list[str], list[str]]:
    """Return the paths of self attentions whose three projections can be one, and of cross attentions with two in one.

    A projection with a bias is two nodes, of which a packed one takes in none. A causal attention has biases too.
    """
    projections = {path: part for path, part in modules_of(root, "Attention") if part.to_k is not None}
    crossed = {path for path, part in projections.items() if part.is_cross_attention}
    whole = [path for path, part in projections.items() if path not in crossed and _plain(part, "to_q", "to_k", "to_v")]
    return whole, [path for path in projections if path in crossed and _plain(projections[path], "to_k", "to_v")]


def _plain(part: Any, *names: str) -> bool:
    """Say whether none of these linear layers has a bias."""
    return all(getattr(part, name).bias is None for name in names)


def last_feed_forwards(root: torch.nn.Module) -> list[str]:
    """Return the path of the last feed-forward of each stack of transformer blocks: no LayerNorm follows its sum."""
    stacks = [children_of(part, "transformer_blocks", path) for path, part in modules_of(root, "Transformer2DModel")]
    return [join(blocks[-1][0], "ff") for blocks in stacks if blocks]


def clip_activations(root: torch.nn.Module, name: str) -> list[str]:
    """Return the paths of an activation function (`quick_gelu`, `gelu`) in CLIP encoders."""
    found = [path for path, part in modules_of(root, "CLIPMLP") if part.config.hidden_act == name]
    return [join(path, "activation_fn") for path in found]


def remove_unused(root: torch.nn.Module, inputs: Sequence[torch.Tensor]) -> None:
    """Replace the sub-modules that no output depends on, which no exported graph holds, by `Identity`.

    Example: an encoder of which only the penultimate hidden state is used does not need its last layer.

    Args:
        root: A module on the meta device; changed in place.
        inputs: Its inputs, on the meta device.
    """
    import torch

    root.requires_grad_(requires_grad=True)
    with torch.enable_grad():
        used = _parameters_behind(root(*inputs))
    unused = [path for path, part in root.named_modules() if path and _is_unused(part, used)]
    for path in unused:
        if path.rpartition(".")[0] not in unused:
            root.set_submodule(path, torch.nn.Identity())


def _is_unused(part: torch.nn.Module, used: set[int]) -> bool:
    """Say whether a module has parameters and none of them is used; one without parameters may do anything."""
    parameters = list(part.parameters())
    return bool(parameters) and not any(id(parameter) in used for parameter in parameters)


def _parameters_behind(outputs: Sequence[torch.Tensor]) -> set[int]:
    """Return the ids of the parameters that the outputs' gradients reach."""
    waiting: list[Any] = [output.grad_fn for output in outputs if output.grad_fn is not None]
    seen, found = set(waiting), set()
    while waiting:
        node = waiting.pop()
        if hasattr(node, "variable"):
            found.add(id(node.variable))
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)
    return found
