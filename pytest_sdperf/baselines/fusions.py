"""Operator counts that an optimizer is known to reach, one file per version of it: `fusions/onnxruntime-1.32.json`.

They need no device, and a thin model has the topology of the full one, so one entry serves both.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path

import msgspec

from pytest_sdperf.baselines.files import pretty, write_atomically
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
        BaselineError: The file is not valid.
    """
    try:
        found = msgspec.convert(json.loads(path.read_text(encoding="utf-8")), _File, strict=True)
    except FileNotFoundError:
        return {}
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


def record(path: Path, counts: Mapping[str, Counts]) -> tuple[str, ...]:
    """Add counts to a file; return one line per entry that changed.

    Raises:
        BaselineError: The file is there but not valid (it is not overwritten), or cannot be written.
    """
    before = read(path)
    changed = {key: dict(found) for key, found in counts.items() if before.get(key) != dict(found)}
    if not changed:
        return ()
    try:
        write_atomically(path, pretty({"schema": SCHEMA, "cases": {**before, **changed}}) + "\n")
    except OSError as error:
        raise BaselineError(
            f"cannot write fusion counts to {path}: {error.strerror}. Name a writable folder with "
            f"--sdperf-baselines=FOLDER."
        ) from error
    return tuple(f"{'~' if key in before else '+'} {key}: {_told(changed[key])}" for key in sorted(changed))


def _told(counts: Counts) -> str:
    return ", ".join(f"{name.rpartition('::')[2]} {nodes}" for name, nodes in sorted(counts.items())) or "no operators"
