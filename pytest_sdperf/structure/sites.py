"""Places in a torch module where an optimization can take hold, found by class names.

Counts come from here and not from a table, so that a new model is counted without anyone typing numbers. Modules are
recognised by the names of their classes in diffusers and transformers, which need not be imported for that. The
module may be on the meta device.
"""

from __future__ import annotations

from collections import Counter
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


def convolutions(root: torch.nn.Module) -> list[str]:
    """Return the paths of the two-dimensional convolutions, those of derived classes included."""
    return [
        path for path, part in root.named_modules() if any(base.__name__ == "Conv2d" for base in type(part).__mro__)
    ]


def attentions(root: torch.nn.Module) -> list[tuple[str, str]]:
    """Return path and kind (`self`, `cross`, `causal`) of each multi-head attention that a fused kernel can run.

    The attention of a VAE's middle block has one head as wide as its channels (512), which no fused kernel takes.
    """
    found = []
    for path, block in modules_of(root, "BasicTransformerBlock"):
        found.append((join(path, "attn1"), "self"))
        if getattr(block, "attn2", None) is not None:
            found.append((join(path, "attn2"), "cross"))
    return found + [(path, "causal") for path, _ in modules_of(root, "CLIPAttention")]


def last_feed_forwards(root: torch.nn.Module) -> list[str]:
    """Return the path of the last feed-forward of each stack of transformer blocks: no LayerNorm follows its sum."""
    stacks = [children_of(part, "transformer_blocks", path) for path, part in modules_of(root, "Transformer2DModel")]
    return [join(blocks[-1][0], "ff") for blocks in stacks if blocks]


def clip_activations(root: torch.nn.Module) -> Counter[str]:
    """Return how often each activation function (`quick_gelu`, `gelu`) occurs in CLIP encoders."""
    return Counter(str(part.config.hidden_act) for _, part in modules_of(root, "CLIPMLP"))


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
