"""The manifest of an artifact in the cache: the names, sizes and hashes of its files, and what is known about it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_sdperf.core.files.disk import sha256_file
from pytest_sdperf.core.values.artifact import Built

MANIFEST = "manifest.json"
_SCHEMA = 1


def manifest_of(folder: Path, metadata: Mapping[str, Any], built: Built) -> dict[str, Any]:
    """Return the manifest of a folder of files.

    Args:
        folder: Holds the files of the artifact and nothing else.
        metadata: What made them says about them.
        built: Where and when they were made.
    """
    files = {
        path.relative_to(folder).as_posix(): {"bytes": path.stat().st_size, "sha256": sha256_file(path)}
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    return {"schema": _SCHEMA, "files": files, "metadata": metadata, "built": dataclasses.asdict(built)}


def verify(folder: Path, *, hashed: bool) -> tuple[str, dict[str, Any]]:
    """Return what is wrong with an entry (empty if nothing is) and its manifest."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        if manifest["schema"] != _SCHEMA:
            return f"schema {manifest['schema']}", {}
        present = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()} - {MANIFEST}
        if present != set(manifest["files"]):
            return f"other files than recorded: {', '.join(sorted(present ^ set(manifest['files'])))}", {}
        for name, recorded in manifest["files"].items():
            if (folder / name).is_symlink():
                return f"{name} is a link", {}
            if (folder / name).stat().st_size != recorded["bytes"]:
                return f"{name} has {(folder / name).stat().st_size} bytes instead of {recorded['bytes']}", {}
            if hashed and sha256_file(folder / name) != recorded["sha256"]:
                return f"{name} has another hash than recorded", {}
        Built(**manifest.get("built", {}))  # raises where another version wrote what this one does not know
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return f"{MANIFEST}: {type(error).__name__}", {}
    return "", manifest


def used_s(folder: Path) -> float:
    """Return when an entry was used last, in seconds since 1970; 0 if it is gone."""
    with contextlib.suppress(OSError):
        return (folder / MANIFEST).stat().st_mtime
    return 0.0
