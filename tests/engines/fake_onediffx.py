"""The module `onediffx` with the one function that the engine calls, as release 1.2.0 has it.

It looks for the same parts of a pipeline and puts something callable in their place, which here only remembers that it
was compiled and with what.
"""

from __future__ import annotations

import torch

# onediffx 1.2.0 from PyPI, compilers/diffusion_pipeline_compiler.py: _PARTS, read on 2026-11-28.
PARTS = [
    "text_encoder",
    "text_encoder_2",
    "image_encoder",
    "unet",
    "controlnet",
    "fast_unet",
    "prior",
    "decoder",
    "transformer",
    "vqgan.down_blocks",
    "vqgan.up_blocks",
    "vae.decoder",
    "vae.encoder",
]
CALLS = []


class Compiled(torch.nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, *arguments):
        return self.module(*arguments)


def compile_pipe(pipe, *, backend="oneflow", options=None, ignores=(), fuse_qkv_projections=False):
    compiled = []
    memory_format = options.pop("memory_format")  # the real one deletes it, too
    for part in ("unet", "vae"):
        if hasattr(pipe, part):
            assert isinstance(getattr(pipe, part), torch.nn.Module)
    for part in PARTS:
        holder, _, name = part.rpartition(".")
        owner = getattr(pipe, holder, None) if holder else pipe
        if owner is not None and hasattr(owner, name):
            setattr(owner, name, Compiled(getattr(owner, name)))
            compiled.append(part)
    CALLS.append({"backend": backend, "options": options, "memory_format": memory_format, "parts": compiled})
    return pipe
