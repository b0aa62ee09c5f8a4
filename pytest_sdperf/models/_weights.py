"""Weights of a component as one safetensors file: drawn from a seed, put into a module."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_sdperf.core import progress
from pytest_sdperf.core.errors import WeightsError
from pytest_sdperf.models._components import Component

if TYPE_CHECKING:
    import torch

_BIAS_BOUND = 0.1
_NORM_BOUND = 0.5


def skeleton(part: Component) -> torch.nn.Module:
    """Build a component on the meta device, in evaluation mode and without gradients."""
    import torch

    with torch.device("meta"):
        module = part.skeleton()
    return module.eval().requires_grad_(requires_grad=False)


def load(part: Component, module: torch.nn.Module, path: Path, *, dtype: str, device: str) -> None:
    """Put the weights of `path` into a module on the meta device, one tensor at a time.

    Raises:
        WeightsError: The file lacks a parameter of the module or holds it in another shape.
    """
    import torch
    from safetensors import safe_open

    torch_dtype: torch.dtype = getattr(torch, dtype)
    state = {}
    with safe_open(path, framework="pt", device="cpu") as file:
        stored = set(file.keys())
        for name, parameter in module.state_dict().items():
            source = part.stored_name(name)
            if source not in stored:
                raise WeightsError(f"{path} lacks {source!r}. Draw or import the weights of this model again.")
            tensor = file.get_tensor(source)
            if tensor.shape != parameter.shape:
                raise WeightsError(misfit(path, source, found=tensor.shape, expected=parameter.shape))
            state[name] = tensor.to(device=device, dtype=torch_dtype)
    module.load_state_dict(state, assign=True)
    module.requires_grad_(requires_grad=False)
    part.restore_buffers(module, device)


def draw(part: Component, path: Path, *, seed: int) -> None:
    """Write random weights; equal seeds give equal files, and the halves of an autoencoder fit together.

    Every tensor has its own generator, seeded by its name. Matrices keep the variance of what flows through them, the
    norms are uniform in [0.5, 1.5] (weight) and [-0.5, 0.5] (bias): activations stay far inside float16, outputs are
    of order 1, and two exchanged norms show.
    """
    module = skeleton(part)
    ranges = {part.stored_name(name): bounds for name, bounds in _ranges(module).items()}
    shapes = stored_shapes(part, module)

    def tensor(name: str) -> torch.Tensor:
        import torch

        digest = hashlib.sha256(f"{seed} {name}".encode()).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(digest[:7], "little"))
        low, high = ranges[name]
        return torch.empty(shapes[name]).uniform_(low, high, generator=generator)

    write(path, shapes, tensor)


def stored_shapes(part: Component, module: torch.nn.Module) -> dict[str, tuple[int, ...]]:
    """Return released parameter name -> shape."""
    return {part.stored_name(name): tuple(tensor.shape) for name, tensor in module.state_dict().items()}


def misfit(path: Path, name: str, *, found: Iterable[int], expected: Iterable[int]) -> str:
    """Word the error that a tensor has the wrong shape."""
    return (
        f"{path} holds {name!r} with shape {list(found)}, the model needs {list(expected)}. "
        f"It is another model's; choose --model to fit it."
    )


def write(path: Path, shapes: Mapping[str, tuple[int, ...]], tensor: Callable[[str], torch.Tensor]) -> None:
    """Write float32 tensors one after the other: the largest one is all that is in memory.

    Source of the layout (length of the header, header, data): https://huggingface.co/docs/safetensors
    """
    header, offset = {}, 0
    for name, shape in shapes.items():
        end = offset + 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    partial = path.with_name(f"{path.name}.partial")
    try:
        with partial.open("wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for name in shapes:
                progress.at(file.tell(), offset)
                file.write(tensor(name).contiguous().numpy().data)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _ranges(module: torch.nn.Module) -> dict[str, tuple[float, float]]:
    """Return parameter name -> lowest and highest value of its uniform distribution."""
    import torch

    norms = (torch.nn.GroupNorm, torch.nn.LayerNorm)
    result = {}
    for prefix, child in module.named_modules():
        for name, parameter in child.named_parameters(prefix=prefix, recurse=False):
            centre = 0.0
            if isinstance(child, norms):
                centre, bound = (1.0 if name.endswith("weight") else 0.0), _NORM_BOUND
            elif isinstance(child, torch.nn.Embedding):
                bound = math.sqrt(3)
            elif parameter.dim() > 1:
                bound = math.sqrt(3 / parameter[0].numel())
            else:
                bound = _BIAS_BOUND
            result[name] = (centre - bound, centre + bound)
    return result
