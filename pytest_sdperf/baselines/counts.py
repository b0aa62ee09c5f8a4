"""Counts that a check is held to, one file per release of a library: `fusions/onnxruntime-1.32.json`.

They need no device. A release that has no entry yet is expected to reach what the newest older one does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from pytest_sdperf.baselines.files import locked, pretty, write_checked
from pytest_sdperf.baselines.stored import current_key
from pytest_sdperf.core.errors import BaselineError
from pytest_sdperf.core.files import strict_json
from pytest_sdperf.core.values.check import Counted

SCHEMA = 1

Counts = Mapping[str, int]
Release = tuple[int, ...]  # major and minor; patch releases share a file

_NAME = re.compile(r"(.+)-(\d+)\.(\d+)\.json")


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    schema: int
    cases: dict[str, dict[str, int]]


def file_of(library: str, version: str) -> str:
    """Return the name of the file of a version of a library: patch releases share one."""
    return f"{library}-{'.'.join(version.split('.')[:2])}.json"


def files_for(path: Path) -> dict[Release, Path]:
    """Return the files that a release is judged by, its own and those of older ones, newest first."""
    library, newest = _release(path.name)
    found = {_release(one.name): one for one in path.parent.glob("*.json")}
    return {one[1]: found[one] for one in sorted(found, reverse=True) if one[0] == library and one[1] <= newest}


def _release(name: str) -> tuple[str, Release]:
    match = _NAME.fullmatch(name)
    return (match[1], (int(match[2]), int(match[3]))) if match else (name, ())


def known(folders: Iterable[Path], file: Path, key: str) -> Counted:
    """Return what a release is known to reach for a case, else what the newest older one is.

    Args:
        folders: Where files of counts are; of one release the first folder that has the case counts.
        file: The release's own, below the folder of baselines.
        key: Of the case.

    Raises:
        BaselineError: A file is there but not valid.
    """
    files = [files_for(folder / file.name) for folder in folders]
    for release in sorted({one for each in files for one in each}, reverse=True):
        entries = (read(each[release]).get(key) for each in files if release in each)
        counts = next((entry for entry in entries if entry is not None), None)
        if counts is not None:
            older = "" if release == _release(file.name)[1] else ".".join(map(str, release))
            return Counted(str(file), key, counts, older)
    return Counted(str(file), key)


def read(path: Path) -> dict[str, dict[str, int]]:
    """Return key -> what is counted -> how many; empty where there is no file.

    Raises:
        BaselineError: The file is not valid, or cannot be read.
    """
    try:
        found = strict_json.convert(strict_json.read(path), _File)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise BaselineError(f"cannot read {_called(path)}: {error.strerror}. Make it readable.") from error
    except ValueError as error:
        raise BaselineError(
            f"{_called(path)} is not valid: {error}. Nothing was written to it. Restore it from version "
            f"control, or move it away and record it again with --sdperf-update-baselines."
        ) from error
    if found.schema != SCHEMA:
        raise BaselineError(
            f"{_called(path)} has schema {found.schema}; this version of pytest-sdperf reads schema "
            f"{SCHEMA}. Install the version that wrote it, or record it again with --sdperf-update-baselines."
        )
    return {current_key(key): counts for key, counts in found.cases.items()}


def record(path: Path, counts: Mapping[str, Counts], *, lock_dir: Path) -> tuple[str, ...]:
    """Add counts to a file, while no other process does; return one line per entry that changed.

    Args:
        path: The file; it may not exist yet.
        counts: Key -> what is counted -> how many.
        lock_dir: Folder for lock files, outside the reviewed folder.

    Raises:
        BaselineError: The file is there but not valid (it is not overwritten), cannot be written, or another process
            holds it.
        PrivacyError: A key holds private text.
    """
    with locked(path, lock_dir=lock_dir):
        before = read(path)
        changed = {key: dict(found) for key, found in counts.items() if before.get(key) != dict(found)}
        if changed:
            write_checked(path, pretty({"schema": SCHEMA, "cases": {**before, **changed}}) + "\n")
    return tuple(f"{'~' if key in before else '+'} {key}: {_told(changed[key])}" for key in sorted(changed))


def _called(path: Path) -> str:
    return f"file of {path.parent.name.removesuffix('s')} counts {path}"


def _told(counts: Counts) -> str:
    return ", ".join(f"{name.rpartition('::')[2]} {nodes}" for name, nodes in sorted(counts.items())) or "no operators"
