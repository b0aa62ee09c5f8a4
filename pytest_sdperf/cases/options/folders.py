"""Which folder was meant."""

from __future__ import annotations

import contextlib
import difflib
from pathlib import Path


def meant_folder(path: Path) -> str:
    """Ask which folder is meant by a path that leads to none, as ` Did you mean X?`; empty where nothing is like it."""
    wrong = path
    while wrong != wrong.parent and not wrong.parent.is_dir():
        wrong = wrong.parent
    with contextlib.suppress(OSError):  # whose folders may not be listed
        names = sorted(one.name for one in wrong.parent.iterdir() if one.is_dir())
        for name in difflib.get_close_matches(wrong.name, names):
            found = wrong.parent / name / path.relative_to(wrong)
            if found.is_dir():
                return f" Did you mean {found}?"
    return ""
