"""Which modules of a component are its blocks: there what an engine has inside is compared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def blocks_of(whole: torch.nn.Module) -> Iterator[tuple[str, torch.nn.Module]]:
    """Yield path and module of every block: an entry of a list of modules that holds modules and weights itself.

    Resnets, attentions and the transformer blocks in them, down- and upsamplers and the layers of a text encoder are
    such entries, whatever their classes are called.
    """
    for path, part in whole.named_modules():
        holder = whole.get_submodule(path.rpartition(".")[0])
        inner, weight = next(part.children(), None), next(part.parameters(), None)
        if type(holder).__name__ == "ModuleList" and inner is not None and weight is not None:
            yield path, part
