"""Weights of a component as one safetensors file: drawn from a seed, imported from a folder, put into a module."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_sdperf.errors import WeightsError
from pytest_sdperf.models._components import Component

if TYPE_CHECKING:
    import torch

# Old autoencoders name the projections of their attention differently.
_DEPRECATED = {".query.": ".to_q.", ".key.": ".to_k.", ".value.": ".to_v.", ".proj_attn.": ".to_out.0."}
_BIAS_BOUND = 0.1
_NORM_BOUND = 0.5


def skeleton(part: Component) -> torch.nn.Module:
    """Build a component on the meta device, in evaluation mode and without gradients."""
    import torch

    with torch.device("meta"):
        module = part.skeleton()
    return module.eval().requires_grad_(False)


def load(part: Component, module: torch.nn.Module, path: Path, *, floating: str, device: str) -> None:
    """Put the weights of `path` into a module on the meta device, one tensor at a time.

    Raises:
        WeightsError: The file does not hold exactly the module's parameters.
    """
    import torch
    from safetensors import safe_open

    dtype: torch.dtype = getattr(torch, floating)
    state = {}
    with safe_open(path, framework="pt", device="cpu") as file:
        for name, parameter in module.state_dict().items():
            tensor = file.get_tensor(part.stored_name(name))
            if tensor.shape != parameter.shape:
                raise WeightsError(_misfit(path, part.stored_name(name), tensor.shape, parameter.shape))
            state[name] = tensor.to(device=device, dtype=dtype)
    module.load_state_dict(state, assign=True)
    module.requires_grad_(False)
    part.restore_buffers(module, device)


def draw(part: Component, path: Path, *, seed: int) -> None:
    """Write random weights; equal seeds give equal files, and the halves of an autoencoder fit together.

    Every tensor has its own generator, seeded by its name. Matrices keep the variance of what flows through them, the
    norms are uniform in [0.5, 1.5] (weight) and [-0.5, 0.5] (bias): activations stay far inside float16, outputs are
    of order 1, and two exchanged norms show.
    """
    module = skeleton(part)
    bounds = _bounds(module)
    shapes = {part.stored_name(name): tuple(tensor.shape) for name, tensor in module.state_dict().items()}
    centres_and_bounds = {part.stored_name(name): bounds[name] for name in module.state_dict()}

    def tensor(name: str) -> torch.Tensor:
        import torch

        digest = hashlib.sha256(f"{seed} {name}".encode()).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(digest[:7], "little"))
        centre, bound = centres_and_bounds[name]
        return torch.empty(shapes[name]).uniform_(centre - bound, centre + bound, generator=generator)

    _write(path, shapes, tensor)


def import_folder(part: Component, folder: Path, path: Path) -> None:
    """Write the weights that a diffusers folder holds for a component, as float32.

    Raises:
        WeightsError: The folder lacks the component, holds pickles only, or does not fit the configuration.
    """
    from safetensors import safe_open

    module = skeleton(part)
    shapes = {part.stored_name(name): tuple(tensor.shape) for name, tensor in module.state_dict().items()}
    files = {}
    for file in _safetensors_files(folder, part.folder):
        with safe_open(file, framework="pt", device="cpu") as opened:
            for name in opened.keys():  # noqa: SIM118 (not a mapping)
                files[_modern(name)] = (file, name)
    missing = sorted(set(shapes) - set(files))
    if missing:
        raise WeightsError(
            f"{folder / part.folder} lacks {len(missing)} of {len(shapes)} tensors, the first is {missing[0]!r}. "
            f"It holds another model; choose --model to fit it."
        )

    def tensor(name: str) -> torch.Tensor:
        import torch

        file, stored = files[name]
        with safe_open(file, framework="pt", device="cpu") as opened:
            found = opened.get_tensor(stored).to(torch.float32)
        if found.dim() == 4 and len(shapes[name]) == 2:  # 1x1 convolutions of old autoencoders
            found = found.flatten(1)
        if tuple(found.shape) != shapes[name]:
            raise WeightsError(_misfit(file, stored, found.shape, shapes[name]))
        return found

    _write(path, shapes, tensor)


def _bounds(module: torch.nn.Module) -> dict[str, tuple[float, float]]:
    """Return parameter name -> centre and half-width of its uniform distribution."""
    import torch

    norms = (torch.nn.GroupNorm, torch.nn.LayerNorm)
    result = {}
    for prefix, child in module.named_modules():
        for name, parameter in child.named_parameters(prefix=prefix, recurse=False):
            if isinstance(child, norms):
                result[name] = (1.0 if name.endswith("weight") else 0.0, _NORM_BOUND)
            elif isinstance(child, torch.nn.Embedding):
                result[name] = (0.0, math.sqrt(3))
            elif parameter.dim() > 1:
                result[name] = (0.0, math.sqrt(3 / parameter[0].numel()))
            else:
                result[name] = (0.0, _BIAS_BOUND)
    return result


def _modern(name: str) -> str:
    for old, new in _DEPRECATED.items():
        name = name.replace(old, new)
    return name


def _misfit(path: Path, name: str, found: Iterable[int], expected: Iterable[int]) -> str:
    return (
        f"{path} holds {name!r} with shape {list(found)}, the model needs {list(expected)}. "
        f"It holds another model; choose --model to fit it."
    )


def _safetensors_files(folder: Path, component: str) -> tuple[Path, ...]:
    """Return the files that hold a component: one, or the parts that an index names; full precision first."""
    place = folder / component
    if not place.is_dir():
        present = sorted(item.name for item in folder.iterdir() if item.is_dir())
        raise WeightsError(
            f"weights folder {folder} has no sub-folder {component!r}; it has: {', '.join(present) or 'none'}. "
            f"Give a diffusers folder (one sub-folder per component) to --weights."
        )
    for stem in ("diffusion_pytorch_model", "model"):
        for variant in ("", ".fp16"):
            index = place / f"{stem}.safetensors.index{variant}.json"
            if index.is_file():
                names = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
                return tuple(place / Path(name).name for name in sorted(names))
            single = place / f"{stem}{variant}.safetensors"
            if single.is_file():
                return (single,)
    pickles = sorted(item.name for item in place.iterdir() if item.suffix in (".bin", ".ckpt", ".pt", ".pth"))
    if pickles:
        raise WeightsError(
            f"{place} holds only pickles ({', '.join(pickles)}), which can run code when loaded. Convert them to "
            f"safetensors first, for example with pipe.save_pretrained(folder, safe_serialization=True)."
        )
    raise WeightsError(
        f"{place} holds no diffusion_pytorch_model.safetensors and no model.safetensors. "
        f"Give a diffusers folder with safetensors files to --weights."
    )


def _write(path: Path, shapes: Mapping[str, tuple[int, ...]], tensor: Callable[[str], torch.Tensor]) -> None:
    """Write float32 tensors one after the other: the largest one is all that is in memory.

    Layout: https://huggingface.co/docs/safetensors, length of the header, header, data.
    """
    header, offset = {}, 0
    for name, shape in shapes.items():
        end = offset + 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    partial = path.with_name(f"{path.name}.partial")
    with partial.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in shapes:
            file.write(tensor(name).contiguous().numpy().data)
    partial.replace(path)
