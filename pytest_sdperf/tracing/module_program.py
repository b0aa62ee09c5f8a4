"""The program that shows what a module of torch does wrong: needs torch, and the library that the module comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_sdperf.core.values.recipe import ModuleRecipe

WEIGHTS, INPUTS, EXPECTED = "weights.safetensors", "inputs.safetensors", "expected.safetensors"
SCRIPT = "reproduce.py"
_PROGRAM = '''\
"""Exit status 1 while what {path} gives is farther from {expected} than {limit:.2e}, else 0."""

import math
import sys
from pathlib import Path

import torch
{imports}from safetensors.torch import load_file

here, device = Path(__file__).resolve().parent, {device!r}
{settings}with torch.device("meta"):
    part = {built}
{state}part = part.eval()
{changes}given = load_file(here / "{inputs}", device=device)
expected = load_file(here / "{expected}")["expected"].double()


def error_after(numbers):
    """Call it, in memory that may have held so many NaN: a fresh process has zeros there."""
    torch.full((numbers,), torch.nan, device=device)  # and it is given back
    with torch.inference_mode(){kernel}:
        obtained = part({call}){taken}
    far = float((obtained.cpu().double() - expected).norm() / expected.norm())
    return far if math.isfinite(far) else math.inf


error = 0.0
for numbers in [1, *(2**power for power in range(8, 27 if device.startswith("cuda") else 16))]:
    error = max(error, error_after(numbers))
    if error > {limit!r}:
        break
print(f"torch {{torch.__version__}}{versions} {{device}}: error {{error:.2e}}, limit {limit:.2e}")
sys.exit(0 if error <= {limit!r} else 1)
'''
_STATE = """\
weights = load_file(here / "{weights}", device=device)
part.load_state_dict(weights, strict=False, assign=True)
"""
_CHANNELS_LAST = "part = part.to(memory_format=torch.channels_last)\n"
_XFORMERS = """\
for one in part.modules():
    if isinstance(one, Attention):
        one.set_processor(XFormersAttnProcessor())
"""
_TF32 = "torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True\n"
_KERNEL = ", torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.{name})"


def program(
    *,
    imports: str,
    built: str,
    config: Mapping[str, Any],
    weights: Sequence[str],
    buffers: Sequence[str],
    call: str,
    taken: str,
    limit: float,
    recipe: ModuleRecipe,
    path: str,
) -> str:
    """Return the program.

    Args:
        imports: What it needs beside torch; lines, or empty.
        built: Expression that builds the module; it may read `config`.
        config: That configuration.
        weights: Names of its tensors.
        buffers: Names of those that are no parameters.
        call: Arguments of the call; they read `given`.
        taken: What is taken of what it gives: empty for all, `[0]`, `["last_hidden_state"]`.
        limit: Error that passes.
        recipe: How the engine calls the module.
        path: Of the module.
    """
    xformers = recipe.attention == "xformers"
    lines = [imports] if imports else []
    if xformers:
        lines.append("from diffusers.models.attention_processor import Attention, XFormersAttnProcessor")
    settings = f"config = {dict(config)!r}\n" if config else ""
    changes = _CHANNELS_LAST if recipe.channels_last else ""
    if xformers:
        changes += _XFORMERS
    if recipe.compile is not None:
        said = ", ".join(f"{name}={value!r}" for name, value in recipe.compile.items())
        changes += f"part = torch.compile(part, {said})\n"
    libraries = sorted({line.split()[1].partition(".")[0] for line in imports.splitlines()})
    return _PROGRAM.format(
        path=path,
        versions="".join(f", {name} {{{name}.__version__}}" for name in libraries),
        imports="".join(f"{line}\n" for line in [*(f"import {name}" for name in libraries), *lines]),
        device=recipe.device,
        settings=(_TF32 if recipe.tf32 else "") + settings,
        built=built,
        state=(_STATE.format(weights=WEIGHTS) if weights else "") + "".join(map(_buffer, buffers)),
        changes=changes,
        kernel=_KERNEL.format(name=recipe.attention) if recipe.attention and not xformers else "",
        call=call,
        taken=taken,
        limit=limit,
        inputs=INPUTS,
        expected=EXPECTED,
    )


def _buffer(name: str) -> str:
    owner, _, own = name.rpartition(".")
    return f'part.get_submodule("{owner}").{own} = weights["{name}"]\n'
