"""What a case says about its weights: two sources with one identity would be compared with each other."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from pytest_sdperf.builds.hub import hub_revision

OWN = ""
"""The model's own, where some come with it; else random ones."""
RANDOM = "random"
NONE = "none"
"""Graphs are built without weights; nothing is executed."""
_SEED = 0
_SUFFIXES = (".safetensors", ".json", ".txt")
_EDGE_BYTES = 1 << 20


def weights_identity(weights: str) -> str:
    """Return `random-0`, `none`, a fingerprint of a folder, or a hub id with its commit: `owner/name@0123456789ab`.

    The fingerprint covers the name, size, first and last mebibyte of every file of weights or configuration: a
    safetensors header holds every tensor's name and place, and collecting tests must not read gigabytes.

    Args:
        weights: `random`, `none`, an absolute path, or a hub id.

    Raises:
        WeightsError: A hub id that is neither on this disk nor known to the hub.
    """
    if weights == RANDOM:
        return f"{RANDOM}-{_SEED}"
    if weights == NONE:
        return NONE
    folder = Path(weights)
    if not folder.is_absolute():
        return f"{weights}@{hub_revision(weights)[:12]}"
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.suffix in _SUFFIXES and path.is_file()):
        size = path.stat().st_size
        digest.update(os.fsencode(f"{path.relative_to(folder).as_posix()}\0{size}\0"))
        with path.open("rb") as file:
            digest.update(file.read(_EDGE_BYTES))
            file.seek(max(size - _EDGE_BYTES, 0))
            digest.update(file.read(_EDGE_BYTES))
    return f"folder-{digest.hexdigest()[:12]}"
