"""The identity of weights, a part of every case key: equal identities mean equal weights, on every machine."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from pytest_sdperf.errors import WeightsError
from pytest_sdperf.weights_source import Drawn, find_source

_SHA256 = re.compile(r"[0-9a-f]{64}")


def identify_weights(text: str) -> str:
    """Return the identity of what `--weights` names: `random-0`, `none`, or a hash of a folder's safetensors files.

    Raises:
        WeightsError: There is no such folder or hub model, or it holds no safetensors files.
    """
    if text == "none":
        return text
    source = find_source(text)
    return f"random-{source.seed}" if isinstance(source, Drawn) else _hash_folder(source.path)


def _hash_folder(folder: Path) -> str:
    """Hash names and content of the safetensors files: twelve hexadecimal digits."""
    files = sorted(path for path in folder.glob("*/*.safetensors") if path.is_file())
    if not files:
        raise WeightsError(
            f"weights folder {folder} holds no safetensors files in its sub-folders. Give a diffusers folder (one "
            f"sub-folder per component); convert pickles with pipe.save_pretrained(folder, safe_serialization=True)."
        )
    total = hashlib.sha256()
    for file in files:
        total.update(f"{file.relative_to(folder).as_posix()} {_hash_file(file)}\n".encode())
    return total.hexdigest()[:12]


def _hash_file(file: Path) -> str:
    """Return the SHA-256 of a file; the hub's cache names large files by it, which saves reading gigabytes."""
    real = file.resolve()
    if real.parent.name == "blobs" and _SHA256.fullmatch(real.name):
        return real.name
    digest = hashlib.sha256()
    with real.open("rb") as stream:
        while block := stream.read(1 << 24):
            digest.update(block)
    return digest.hexdigest()
