"""What the user's own git says."""

from __future__ import annotations

import subprocess
from pathlib import Path


def commit_of(root: Path) -> str:
    """Return the short commit of a project; empty where there is no git."""
    return (_asked("-C", str(root), "rev-parse", "--short=12", "HEAD") or "").strip()


def is_tracked(path: Path) -> bool:
    """Return whether git, asked in the current folder, knows a file or anything in a folder, and shows how it changed.

    A file that was never added has no diff, and one outside the repository of the current folder is refused.
    """
    return _asked("ls-files", "--error-unmatch", "--", str(path)) is not None


def _asked(*arguments: str) -> str | None:
    """Return what git prints; None where it refuses, or there is none."""
    try:
        answer = subprocess.run(  # noqa: S603 - no shell
            ["git", *arguments],  # noqa: S607 - the user's own git
            capture_output=True,
            text=True,
            check=False,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout if answer.returncode == 0 else None
