"""Operator counts that an optimizer is known to reach, one file per version of it: `fusions/onnxruntime-1.32.json`.

They need no device, and a thin model has the topology of the full one, so one entry serves both.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import msgspec

from pytest_sdperf.baselines import strict_json
from pytest_sdperf.baselines.files import locked, pretty, write_checked
from pytest_sdperf.errors import BaselineError
from pytest_sdperf.options.onnx_folder import GIVEN
from pytest_sdperf.values import Case

SCHEMA = 1
THIN = "-thin"

Counts = Mapping[str, int]


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    schema: int
    cases: dict[str, dict[str, int]]


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
        weights=case.weights if case.exporter == GIVEN else "",
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


def read(path: Path) -> dict[str, dict[str, int]]:
    """Return key -> `domain::op_type` -> nodes; empty where there is no file.

    Raises:
        BaselineError: The file is not valid, or cannot be read.
    """
    try:
        found = msgspec.convert(strict_json.parse(path.read_text(encoding="utf-8")), _File, strict=True)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise BaselineError(f"cannot read file of fusion counts {path}: {error.strerror}. Make it readable.") from error
    except (ValueError, msgspec.ValidationError) as error:
        raise BaselineError(
            f"file of fusion counts {path} is not valid: {error}. Nothing was written to it. Restore it from version "
            f"control, or move it away and record it again with --sdperf-update-baselines."
        ) from error
    if found.schema != SCHEMA:
        raise BaselineError(
            f"file of fusion counts {path} has schema {found.schema}; this version of pytest-sdperf reads schema "
            f"{SCHEMA}. Install the version that wrote it, or record it again with --sdperf-update-baselines."
        )
    return found.cases


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
