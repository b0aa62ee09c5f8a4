"""The folders of the project in which a command is typed, as a run that is started there would use them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from pytest_sdperf.cases.options.option import PREFIX
from pytest_sdperf.cases.options.profiles import read_project
from pytest_sdperf.cases.options.reading import SettingsParser, read_answers
from pytest_sdperf.cases.registration import HOOK, fill_catalog
from pytest_sdperf.core.errors import OptionError
from pytest_sdperf.core.files.disk import meant_folder

NAME_THEM = "Correct it, or name the folders of this command with its own options; see --help."
ELSEWHERE = (
    "It may register folders of baselines. Correct it, or type this command in a folder that has none, and name the "
    "folders with its own options; see --help."
)
# Short spellings belong to a conftest.py; of these the folders would be forgotten.
_SHORT = ("--baselines", "--cache-dir", "--state-dir")


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
    """Return the folders of a run in this folder: pytest reads its configuration, and stops before any `conftest.py`.

    A `conftest.py` may import anything, and what asks here needs neither torch nor what tests need.

    Args:
        unreadable: What to do where pytest cannot read it.

    Raises:
        OptionError: pytest cannot read it, and has printed why; or a `conftest.py` is needed to know the folders.
    """
    asked = _Asked()
    try:
        # By its name: then it is there whether or not plug-ins are loaded by themselves.
        status = str(int(pytest.main(["-p", plugin_name()], plugins=[asked])))
    except _Answered as answered:
        return answered.folders
    except ImportError as error:  # a plug-in that the configuration names
        status = str(error)
    raise OptionError(f"pytest cannot read the configuration of this folder (exit status {status}). {unreadable}")


def existing_folder(named: Path) -> Path:
    """Return the folder that `--baselines` names, for a command that only reads what is there.

    Raises:
        OptionError: There is no such folder.
    """
    if not named.is_dir():
        raise OptionError(
            f"--baselines={named}: there is no such folder.{meant_folder(named)} Name the folder of the baseline "
            f"files, or leave --baselines out for that of a run that is started here."
        )
    return named


def plugin_name() -> str:
    """Return what pytest calls this plug-in: its entry point, or the module where a copy of it is not installed."""
    installed = {entry.name for entry in entry_points(group="pytest11")}
    return "sdperf" if "sdperf" in installed else "pytest_sdperf.plugin"


class _Answered(Exception):  # noqa: N818 - it ends pytest, and nothing has gone wrong
    def __init__(self, folders: Folders) -> None:
        super().__init__()
        self.folders = folders


class _Asked:
    """A plug-in of pytest that asks for the folders instead of running tests."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_load_initial_conftests(
        self, early_config: pytest.Config, parser: pytest.Parser, args: list[str]
    ) -> None:
        """Read the options as a run does; those of a `conftest.py` are unknown, and of no concern here."""
        early_config.option, unknown = parser.parse_known_and_unknown_args(args)
        check_unknown(unknown)
        check_conftest(early_config.rootpath / "conftest.py")
        answers = read_answers(early_config, read_project(early_config.rootpath).options)
        catalog = fill_catalog(early_config.pluginmanager)
        reader = SettingsParser(
            answers, catalog, {}, "cpu", started_in=early_config.invocation_params.dir, root=early_config.rootpath
        )
        cache, baselines, state = (reader.value(name) for name in ("cache-dir", "baselines", "state-dir"))
        raise _Answered(Folders(cache, baselines, state, registered=tuple(catalog.baseline_folders)))


def check_unknown(arguments: Sequence[str]) -> None:
    """Refuse what only a `conftest.py` could make an option that names a folder.

    Raises:
        OptionError: There is such.
    """
    for argument in arguments:
        name = argument.partition("=")[0]
        if name in _SHORT or name.startswith(f"--{PREFIX}-"):
            long = f"--{PREFIX}-{name.removeprefix(f'--{PREFIX}-').removeprefix('--')}"
            known = f"Type {long} there" if name in _SHORT else "See `sdperf options` for those that there are"
            raise OptionError(
                f"the configuration of pytest has the option {name}, which is none without a conftest.py, and this "
                f"command loads none. {known}."
            )


def check_conftest(path: Path) -> None:
    """Refuse a project whose `conftest.py` registers folders of baselines: it is not loaded, and they judge in a run.

    Raises:
        OptionError: It does.
    """
    if path.is_file() and "add_baselines" in path.read_text(encoding="utf-8", errors="replace"):
        raise OptionError(
            f"{path} registers a folder of baselines (add_baselines), and this command loads no conftest.py: it may "
            f"import what is not here. Move {HOOK} into a module that pytest loads by its name, such as acme.py: "
            f"addopts = -p acme"
        )
