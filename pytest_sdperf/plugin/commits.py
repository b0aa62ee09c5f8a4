"""The commit of the project under test."""

from __future__ import annotations

import subprocess
from pathlib import Path


def commit_of(root: Path) -> str:
    """Return the short commit of a project; empty where there is no git."""
    try:
        answer = subprocess.run(  # noqa: S603 - no shell, and the folder is pytest's own root
            ["git", "-C", str(root), "rev-parse", "--short=12", "HEAD"],  # noqa: S607 - the user's own git
            capture_output=True,
            text=True,
            check=False,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout.strip() if answer.returncode == 0 else ""
