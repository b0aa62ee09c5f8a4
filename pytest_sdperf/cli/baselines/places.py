"""Where baselines and candidates are: what the command line names, else the folders of a run that is started here."""

from __future__ import annotations

import argparse
import functools
import json
from collections.abc import Iterator
from pathlib import Path

from pytest_sdperf.acceptance.candidates import State
from pytest_sdperf.baselines.sources import BaselineFiles
from pytest_sdperf.baselines.stored import Baseline, Machine, read
from pytest_sdperf.cli.project import ELSEWHERE, Folders, folders
from pytest_sdperf.core.errors import BaselineError
from pytest_sdperf.core.files import strict_json

# Beside these, results have `schema` and `date`, as files of other tools may.
_OF_RESULTS = frozenset({"summary", "policy", "reports", "run", "settings"})


class Places:
    """The folders of one command; pytest's configuration is read only if it has to be.

    Attributes:
        chosen: Parsed arguments, with those of `add_options`.
    """

    def __init__(self, chosen: argparse.Namespace) -> None:
        self._chosen = chosen

    @staticmethod
    def add_options(parser: argparse.ArgumentParser, *, state: bool = True) -> None:
        """Add the options that name them."""
        default = "default: the folder of a run that is started here"
        parser.add_argument("--baselines", type=Path, metavar="FOLDER", help=f"of the baseline files; {default}")
        if state:
            parser.add_argument("--state-dir", type=Path, metavar="FOLDER", help=f"of candidates; {default}")

    @functools.cached_property
    def baselines(self) -> Path:
        """Folder of the baseline files."""
        named: Path | None = self._chosen.baselines
        return named if named is not None else self._folders.baselines

    @functools.cached_property
    def state(self) -> State:
        """What this machine keeps of the project: candidates and locks."""
        named: Path | None = self._chosen.state_dir
        return State(named if named is not None else self._folders.state, self.baselines)

    @functools.cached_property
    def _folders(self) -> Folders:
        return folders(unreadable=ELSEWHERE)

    def sources(self, slug: str, machine: Machine) -> BaselineFiles:
        """Read what judges the cases of a device in a run that is started here, as it is now.

        Args:
            slug: Of the device.
            machine: Keys of the machine that measured.

        Raises:
            OptionError: pytest cannot read its configuration, which may register folders of baselines.
            BaselineError: A file cannot be trusted.
        """
        return BaselineFiles.of_device(self.baselines, self._folders.registered, slug=slug, machine=machine)


def files_in(folder: Path) -> Iterator[tuple[Path, Baseline]]:
    """Yield the baseline files of a folder by name, each with its content.

    Raises:
        BaselineError: One cannot be trusted.
    """
    for path in sorted(folder.glob("*.json")):
        found = read(path)
        if found is not None:
            yield path, found


def is_results(path: Path, *, unreadable: bool) -> bool:
    """Whether a file holds results of a run, whole or not; what is wrong with it says its reader.

    Args:
        path: The file.
        unreadable: The answer for one that is no JSON, and may have been anything.
    """
    try:
        data = json.loads(strict_json.text_of(path))
    except (OSError, ValueError, RecursionError):
        return unreadable
    return isinstance(data, dict) and ("reports" in data or len(data.keys() & _OF_RESULTS) > 1)


def existing(path: Path) -> Baseline:
    """Read a baseline file that has to be there.

    Raises:
        BaselineError: It is not, or cannot be trusted.
    """
    found = read(path)
    if found is None:
        raise BaselineError(f"there is no baseline file {path}. See `sdperf baselines list` for those that there are.")
    return found
