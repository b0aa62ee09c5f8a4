"""What the extras of the project bring, read from where they are listed."""

from __future__ import annotations

import tomllib
from pathlib import Path


def extra_command(extra: str) -> str:
    """Return the command that brings the packages of an extra."""
    project = tomllib.loads(Path(__file__).parents[1].joinpath("pyproject.toml").read_text())["project"]
    return "pip install " + " ".join(f"'{package}'" for package in sorted(project["optional-dependencies"][extra]))
