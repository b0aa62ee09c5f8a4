"""The folders of the project in which a command is typed, as a run that is started there would use them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_sdperf.errors import OptionError
from pytest_sdperf.options.answers import read_answers
from pytest_sdperf.options.folders import baselines_folder, cache_folder, state_folder
from pytest_sdperf.options.profiles import read_project


@dataclass(frozen=True)
class Folders:
    """Where a run keeps its files.

    Attributes:
        cache: Built models.
        baselines: Baseline files.
        state: What this machine measured and nobody has accepted yet.
    """

    cache: Path
    baselines: Path
    state: Path


def folders() -> Folders:
    """Return the folders of a run in this folder: pytest reads its configuration, and stops there.

    Raises:
        OptionError: pytest cannot read it; it has printed why.
    """
    asked = _Asked()
    # By its name: then it is there whether or not plug-ins are loaded by themselves.
    status = pytest.main(["-p", "sdperf"], plugins=[asked])
    if asked.folders is None:
        raise OptionError(
            f"pytest cannot read the configuration of this folder (exit status {int(status)}). Correct it, or name the "
            "folders of this command with its own options; see --help."
        )
    return asked.folders


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
        )
        return 0
