"""Where weights come from: `--weights` as a seed, a local diffusers folder or a model of the Hugging Face hub."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_sdperf.builds.hub import hub_revision, not_fetched
from pytest_sdperf.builds.weights_identity import NONE
from pytest_sdperf.core.errors import WeightsError

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_FETCHED = ("*.json", "*/*.json", "*/*.safetensors", "*/merges.txt")
_NOT_FETCHED = ("*.fp16.safetensors", "*.non_ema.safetensors")


@dataclass(frozen=True)
class Drawn:
    """Random weights from a seed."""

    seed: int = 0

    def parts(self) -> dict[str, Any]:
        """Return what a cache key holds of the source."""
        return {"seed": self.seed}

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the task that writes the weights."""
        return {"folder": None, "seed": self.seed}


@dataclass(frozen=True)
class Folder:
    """A local diffusers folder."""

    path: Path

    def parts(self) -> dict[str, Any]:
        """Return names, sizes and times of the folder's files.

        They say quickly whether the import must be done again; every later step depends on the imported content.
        """
        files = sorted(path for path in self.path.rglob("*") if path.is_file())
        return {
            "files": [
                [path.relative_to(self.path).as_posix(), path.stat().st_size, path.stat().st_mtime_ns] for path in files
            ]
        }

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the task that writes the weights."""
        return {"folder": self.path}


@dataclass(frozen=True)
class Nothing:
    """No weights: graphs are only looked at."""

    def parts(self) -> dict[str, Any]:
        """Return what a cache key holds of the source."""
        return {"weights": NONE}

    def arguments(self) -> dict[str, Any]:
        """Refuse to write weights.

        Raises:
            WeightsError: Always.
        """
        raise WeightsError(
            f"--sdperf-weights={NONE} builds graphs without weights, and weights were asked for. Leave "
            f"--sdperf-weights out, or only look at graphs."
        )


def find_source(weights: str) -> Drawn | Folder | Nothing:
    """Understand the value of `--weights`; fetch a hub model if that is what it names.

    Args:
        weights: `random`, `none`, a local folder or a hub id such as `stable-diffusion-v1-5/stable-diffusion-v1-5`.

    Raises:
        WeightsError: It is none of these, or cannot be fetched.
    """
    if weights == "random":
        return Drawn()
    if weights == NONE:
        return Nothing()
    folder = Path(weights).expanduser()
    if folder.is_dir():
        return Folder(folder.resolve())
    if _HUB_ID.fullmatch(weights):
        return Folder(_fetch(weights))
    raise WeightsError(
        f"--weights={weights} is neither 'random', nor 'none', nor an existing folder, nor a hub id (OWNER/NAME). "
        f"Give the folder of a diffusers pipeline, which holds unet, vae, text_encoder, ..."
    )


def _fetch(hub_id: str) -> Path:
    """Fetch what the identity of the weights names; what is on this disk already is not fetched again."""
    revision = hub_revision(hub_id)
    try:
        import huggingface_hub

        return Path(
            huggingface_hub.snapshot_download(
                hub_id, revision=revision, allow_patterns=list(_FETCHED), ignore_patterns=list(_NOT_FETCHED)
            )
        )
    except Exception as error:
        raise not_fetched(hub_id, error) from error
