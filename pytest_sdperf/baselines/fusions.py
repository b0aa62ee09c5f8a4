"""Operator counts that an optimizer is known to reach, one file per version of it: `fusions/onnxruntime-1.32.json`.

They need no device, and a thin model has the topology of the full one, so one entry serves both. A release that has no
entry yet is expected to reach what the newest older one does. A graph that was exported elsewhere is stored there too,
whichever optimizer made something of it.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from pytest_sdperf.baselines.earlier import current_key
from pytest_sdperf.baselines.files import locked, pretty, write_checked
from pytest_sdperf.core.errors import BaselineError
from pytest_sdperf.core.files import strict_json
from pytest_sdperf.core.values import Case
from pytest_sdperf.core.values.case import EXTERNAL

SCHEMA = 1
THIN = "-thin"

Counts = Mapping[str, int]
Release = tuple[int, ...]  # major and minor; patch releases share a file

_NAME = re.compile(r"onnxruntime-(\d+)\.(\d+)\.json")


@dataclasses.dataclass(frozen=True)
class KnownCounts:
    """What is known of a build by a foreign optimizer, or of a graph of somebody else.

    Attributes:
        counts: `domain::op_type` -> nodes; empty where nothing is stored, neither of this release nor of an older one.
        older: The older release that it is known of; empty for the one that is asked about.
    """

    counts: Counts
    older: str = ""


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    schema: int
    cases: dict[str, dict[str, int]]


def is_stored(case: Case) -> bool:
    """Whether the counts of a build are stored: our own optimizer on our own export is judged by its target alone."""
    return case.fuser == "ort" or case.exporter == EXTERNAL


def fusion_key(case: Case) -> str:
    """Return the key of a build: what was exported and fused, and how; not its weights, sizes and engine.

    A graph that was exported elsewhere is known by its content alone.
    """
    build = dataclasses.replace(
        case,
        model=case.model.removesuffix(THIN),
        engine="",
        engine_options=(),
        fp32_ops="",
        weights=case.weights if case.exporter == EXTERNAL else "",
        batch_size=0,
        height=0,
        width=0,
        steps=0,
        scheduler="",
    )
    return build.key


def file_of(folder: Path, version: str) -> Path:
    """Return the file of an onnxruntime version: patch releases share one."""
    return folder / f"onnxruntime-{'.'.join(version.split('.')[:2])}.json"


def files_for(folder: Path, version: str) -> dict[Release, Path]:
    """Return the files that an onnxruntime version is judged by, its own and those of older releases, newest first."""
    newest = _release(file_of(folder, version))
    found = {release: path for path in folder.glob("onnxruntime-*.json") if (release := _release(path))}
    return {release: found[release] for release in sorted(found, reverse=True) if release <= newest}


def _release(path: Path) -> Release:
    match = _NAME.fullmatch(path.name)
    return tuple(map(int, match.groups())) if match else ()


def known(folders: Iterable[Path], version: str, case: Case) -> KnownCounts:
    """Return what an onnxruntime version is known to reach for a build, else what the newest older release is.

    Args:
        folders: Where files of counts are; of one release the first folder that has the build counts.
        version: Such as `1.33.0`.
        case: The build.

    Raises:
        BaselineError: A file is there but not valid.
    """
    key, files = fusion_key(case), [files_for(folder, version) for folder in folders]
    for release in sorted({one for each in files for one in each}, reverse=True):
        entries = (read(each[release]).get(key) for each in files if release in each)
        counts = next((entry for entry in entries if entry is not None), None)
        if counts is not None:
            # Of a graph that onnxruntime did nothing to, no release of it says anything.
            own = case.fuser != "ort" or release == _release(file_of(Path(), version))
            return KnownCounts(counts, "" if own else ".".join(map(str, release)))
    return KnownCounts({})


def read(path: Path) -> dict[str, dict[str, int]]:
    """Return key -> `domain::op_type` -> nodes; empty where there is no file.

    Raises:
        BaselineError: The file is not valid, or cannot be read.
    """
    try:
        found = strict_json.convert(strict_json.read(path), _File)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise BaselineError(f"cannot read file of fusion counts {path}: {error.strerror}. Make it readable.") from error
    except ValueError as error:
        raise BaselineError(
            f"file of fusion counts {path} is not valid: {error}. Nothing was written to it. Restore it from version "
            f"control, or move it away and record it again with --sdperf-update-baselines."
        ) from error
    if found.schema != SCHEMA:
        raise BaselineError(
            f"file of fusion counts {path} has schema {found.schema}; this version of pytest-sdperf reads schema "
            f"{SCHEMA}. Install the version that wrote it, or record it again with --sdperf-update-baselines."
        )
    return {current_key(key): counts for key, counts in found.cases.items()}


def record(path: Path, counts: Mapping[str, Counts], *, lock_dir: Path) -> tuple[str, ...]:
    """Add counts to a file, while no other process does; return one line per entry that changed.

    Args:
        path: The file; it may not exist yet.
        counts: Key -> `domain::op_type` -> nodes.
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


def _told(counts: Counts) -> str:
    return ", ".join(f"{name.rpartition('::')[2]} {nodes}" for name, nodes in sorted(counts.items())) or "no operators"
