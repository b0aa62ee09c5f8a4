"""Whether git knows a file, so that `git diff` shows how it changed."""

from __future__ import annotations

import subprocess
from pathlib import Path


def is_tracked(path: Path) -> bool:
    """Return whether git, asked in the current folder, knows a file or anything in a folder.

    A file that was never added has no diff, and one outside the repository of the current folder is refused.
    """
    try:
        answer = subprocess.run(  # noqa: S603 - no shell
            ["git", "ls-files", "--error-unmatch", "--", str(path)],  # noqa: S607 - the user's own git
            capture_output=True,
            check=False,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return answer.returncode == 0
