"""Answers -> folders: what was said, or where such things usually are."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Mapping
from pathlib import Path

import platformdirs

from pytest_sdperf.cases.options import parsing as read
from pytest_sdperf.cases.options.option_value import OptionValue
from pytest_sdperf.core.settings import Settings

_APP = "pytest-sdperf"


def path_of(answer: OptionValue, *, started_in: Path, root: Path) -> Path:
    """Return the path that was said: a flag's begins where pytest was started, a file's at the project's root."""
    start = started_in if answer.spelling.startswith("--") else root
    return start / Path(read.text(answer)).expanduser()


def cache_folder(answers: Mapping[str, OptionValue], *, started_in: Path, root: Path) -> Path:
    """Return the folder of built models: what was said, or the user's cache folder."""
    said = answers.get("cache-dir")
    return path_of(said, started_in=started_in, root=root) if said else platformdirs.user_cache_path(_APP)


def baselines_folder(answers: Mapping[str, OptionValue], *, started_in: Path, root: Path) -> Path:
    """Return the folder of baseline files: what was said, or `baselines` where pytest was started."""
    said = answers.get("baselines")
    return path_of(said, started_in=started_in, root=root) if said else started_in / Settings().baselines


def state_folder(answers: Mapping[str, OptionValue], *, started_in: Path, root: Path) -> Path:
    """Return the folder of what this machine measured: what was said, or the user's state folder."""
    said = answers.get("state-dir")
    return path_of(said, started_in=started_in, root=root) if said else platformdirs.user_state_path(_APP)


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
