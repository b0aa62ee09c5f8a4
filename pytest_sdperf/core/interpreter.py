"""What the interpreter that runs this has installed: the suite's own, or that of a profile, which lacks the suite."""

from __future__ import annotations

import importlib.metadata
import sys

PROJECT = "pytest-sdperf"


def has_suite() -> bool:
    """Whether this project is installed here."""
    try:
        importlib.metadata.version(PROJECT)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def pip() -> str:
    """Return how to call the pip of this interpreter; that of a profile by its path, for no shell has activated it."""
    return "pip" if has_suite() else f"{sys.executable} -m pip"


def install_command(extra: str, *packages: str) -> str:
    """Return the command that brings the packages of an extra, by their own names: the project is not on PyPI.

    Args:
        extra: Of this project: `cpu`, `cuda`, `rocm`, `pictures`.
        packages: What is named where the project is not installed, so that nothing here knows its extras.
    """
    brought = [f"'{package}'" for package in sorted(_brought_by(extra))]
    return f"{pip()} install {' '.join(brought or packages)}"


def _brought_by(extra: str) -> list[str]:
    """Return the requirements of an extra (`torch>=2.11`); none where the project is not installed."""
    try:
        requirements = importlib.metadata.requires(PROJECT) or []
    except importlib.metadata.PackageNotFoundError:
        return []
    parts = (requirement.partition(";") for requirement in requirements)
    return [name.strip() for name, _, marker in parts if marker.replace('"', "'").strip() == f"extra == '{extra}'"]
