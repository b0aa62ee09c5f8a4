"""The folders of the project in which a command is typed, as a run that is started there would use them."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from pytest_sdperf.errors import OptionError
from pytest_sdperf.options.answers import read_answers
from pytest_sdperf.options.folders import baselines_folder, cache_folder, state_folder
from pytest_sdperf.options.profiles import read_project
from pytest_sdperf.running.registration import fill_catalog

NAME_THEM = "Correct it, or name the folders of this command with its own options; see --help."
ELSEWHERE = (
    "It may register folders of baselines. Correct it, or type this command in a folder that has none, and name the "
    "folders with its own options; see --help."
)


@dataclass(frozen=True)
class Folders:
    """Where a run keeps its files.

    Attributes:
        cache: Built models.
        baselines: Baseline files.
        state: What this machine measured and nobody has accepted yet.
        registered: Folders of baselines that plug-ins registered, in that order.
    """

    cache: Path
    baselines: Path
    state: Path
    registered: tuple[Path, ...] = ()


def folders(*, unreadable: str = NAME_THEM) -> Folders:
    """Return the folders of a run in this folder: pytest reads its configuration, and stops there.

    Args:
        unreadable: What to do where pytest cannot read it.

    Raises:
        OptionError: pytest cannot read it; it has printed why.
    """
    asked = _Asked()
    # By its name: then it is there whether or not plug-ins are loaded by themselves.
    status = pytest.main(["-p", plugin_name()], plugins=[asked])
    if asked.folders is None:
        raise OptionError(
            f"pytest cannot read the configuration of this folder (exit status {int(status)}). {unreadable}"
        )
    return asked.folders


def plugin_name() -> str:
    """Return what pytest calls this plug-in: its entry point, or the module where a copy of it is not installed."""
    installed = {entry.name for entry in entry_points(group="pytest11")}
    return "sdperf" if "sdperf" in installed else "pytest_sdperf.plugin"


class _Asked:
    """A plug-in of pytest that asks for the folders instead of running tests."""

    folders: Folders | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> int:
        """Read the options as a run does."""
        answers = read_answers(config, read_project(config.rootpath).options)
        places = {"started_in": config.invocation_params.dir, "root": config.rootpath}
        self.folders = Folders(
            cache=cache_folder(answers, **places),
            baselines=baselines_folder(answers, **places),
            state=state_folder(answers, **places),
            registered=tuple(fill_catalog(config.pluginmanager).baseline_folders),
        )
        return 0
