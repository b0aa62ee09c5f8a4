"""Stored files that come with the project: inside the installed package, or in the working tree."""

from __future__ import annotations

from pathlib import Path

from pytest_sdperf.baselines.stored import Baseline, read

PACKAGE = Path(__file__).resolve().parent.parent


def shipped_folder(name: str) -> Path:
    """Return the folder of shipped files called `name` (`published`, `fusions`, `measured`); it may not exist."""
    inside = PACKAGE / "data" / name
    return inside if inside.is_dir() else PACKAGE.parent / "baselines" / name


def measured_folder() -> Path:
    """Return the folder of the baselines that this project recorded on machines of its own pool."""
    return shipped_folder("measured")


def measured() -> tuple[Baseline, ...]:
    """Read them all, sorted by device; they are shown, whatever the machine.

    Raises:
        BaselineError: A file cannot be trusted.
    """
    found = (read(path) for path in sorted(measured_folder().glob("*.json")))
    return tuple(baseline for baseline in found if baseline is not None)
