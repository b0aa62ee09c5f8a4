"""Weights and settings of a local diffusers folder: one sub-folder per component, safetensors only."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_sdperf.core.errors import WeightsError
from pytest_sdperf.models import _weights
from pytest_sdperf.models._components import Component

if TYPE_CHECKING:
    import torch

# Old autoencoders name the projections of their attention differently.
_DEPRECATED = {".query.": ".to_q.", ".key.": ".to_k.", ".value.": ".to_v.", ".proj_attn.": ".to_out.0."}
_TEXT_MODEL = "text_model."
_PICKLES = (".bin", ".ckpt", ".pt", ".pth", ".pkl")


def import_weights(part: Component, folder: Path, path: Path) -> None:
    """Write the weights that a diffusers folder holds for a component, as float32.

    Raises:
        WeightsError: The folder lacks the component, holds pickles only, or does not fit the configuration.
    """
    from safetensors import safe_open

    sources = _sources(
        _safetensors_files(folder, part.folder)
    )  # before torch is imported: a wrong folder shows at once
    shapes = _weights.stored_shapes(part, _weights.skeleton(part))
    sources |= {name: sources[other] for name in set(shapes) - set(sources) if (other := _respelled(name)) in sources}
    missing = sorted(set(shapes) - set(sources))
    if missing:
        raise WeightsError(
            f"{folder / part.folder} lacks {len(missing)} of the {len(shapes)} tensors that the model needs; the "
            f"first is {missing[0]!r}. It is another model's; choose --model to fit it."
        )

    def tensor(name: str) -> torch.Tensor:
        import torch

        file, stored = sources[name]
        with safe_open(file, framework="pt", device="cpu") as opened:
            found: torch.Tensor = opened.get_tensor(stored).to(torch.float32)
        if found.dim() == 4 and len(shapes[name]) == 2:  # 1x1 convolutions of old autoencoders
            found = found.flatten(1)
        if tuple(found.shape) != shapes[name]:
            raise WeightsError(_weights.misfit(file, stored, found=found.shape, expected=shapes[name]))
        return found

    _weights.write(path, shapes, tensor)


def check_prediction(folder: Path, scheduler_config: Mapping[str, Any]) -> None:
    """Refuse a folder that was trained to predict something else: its tensors would fit and its images be noise.

    Raises:
        WeightsError: The folder's scheduler disagrees with `scheduler_config`, or its file cannot be read.
    """
    file = folder / "scheduler" / "scheduler_config.json"
    if not file.is_file():
        return
    given = _json_object(file).get("prediction_type", "epsilon")
    expected = scheduler_config.get("prediction_type", "epsilon")
    if given != expected:
        raise WeightsError(
            f"{file} says prediction_type {given!r}, the model predicts {expected!r}. "
            f"It is another model's; choose --model to fit it."
        )


def _json_object(file: Path) -> dict[str, Any]:
    """Return what a JSON file of the folder holds, in any encoding that Windows writes.

    Raises:
        WeightsError: It cannot be read, or holds no object.
    """
    try:
        found = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise WeightsError(f"{file} cannot be read as JSON ({error}). Fetch or convert it again.") from error
    if not isinstance(found, dict):
        raise WeightsError(f"{file} holds no JSON object. Fetch or convert it again.")
    return found


def _parts(index: Path) -> tuple[Path, ...]:
    """Return the files that an index names.

    Raises:
        WeightsError: It cannot be read, or names none.
    """
    named = _json_object(index).get("weight_map")
    if not isinstance(named, dict) or not named or not all(isinstance(name, str) for name in named.values()):
        raise WeightsError(f"{index} names no files of weights (weight_map). Fetch or convert it again.")
    return tuple(index.parent / Path(name).name for name in sorted(set(named.values())))


def _respelled(name: str) -> str:
    """Return the other name of a tensor of a text encoder: transformers 5 leaves the name of the inner model out."""
    return name.removeprefix(_TEXT_MODEL) if name.startswith(_TEXT_MODEL) else f"{_TEXT_MODEL}{name}"


def _sources(files: tuple[Path, ...]) -> dict[str, tuple[Path, str]]:
    """Return modern tensor name -> file and name in that file."""
    from safetensors import SafetensorError, safe_open

    sources = {}
    for file in files:
        try:
            with safe_open(file, framework="pt", device="cpu") as opened:
                names = list(opened.keys())
        except (OSError, SafetensorError) as error:
            raise WeightsError(f"{file} cannot be read as safetensors ({error}). Fetch or convert it again.") from error
        for name in names:
            modern = name
            for old, new in _DEPRECATED.items():
                modern = modern.replace(old, new)
            sources[modern] = (file, name)
    return sources


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
                return _parts(index)
            single = place / f"{stem}{variant}.safetensors"
            if single.is_file():
                return (single,)
    pickles = sorted(item.name for item in place.iterdir() if item.suffix in _PICKLES)
    if pickles:
        raise WeightsError(
            f"{place} holds only pickles ({', '.join(pickles)}), which can run code when loaded. Convert them to "
            f"safetensors first, for example with pipe.save_pretrained(folder, safe_serialization=True)."
        )
    raise WeightsError(
        f"{place} holds no diffusion_pytorch_model.safetensors and no model.safetensors. "
        f"Give a diffusers folder with safetensors files to --weights."
    )
