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
