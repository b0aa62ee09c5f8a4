"""Where stored files that come with the project are: inside the installed package, or in the working tree."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent


def shipped_folder(name: str) -> Path:
    """Return the folder of shipped files called `name` (`published`, `fusions`); it may not exist."""
    inside = PACKAGE / "data" / name
    return inside if inside.is_dir() else PACKAGE.parent / "baselines" / name
