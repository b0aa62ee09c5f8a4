"""Files and folders that a run was asked to write."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from pytest_sdperf.baselines.files import check_writable
from pytest_sdperf.cases.options.option import OptionValue
from pytest_sdperf.core.errors import OptionError
from pytest_sdperf.core.files.disk import meant_folder
from pytest_sdperf.core.interpreter import install_command
from pytest_sdperf.core.settings import Settings


def check_outputs(settings: Settings) -> None:
    """Find out now, and not after an hour of measuring, whether the files that were asked for can be written.

    Raises:
        OptionError: One cannot.
    """
    asked = {
        "--sdperf-json": settings.json_file,
        "--sdperf-html": settings.html_file,
        "--sdperf-explain": settings.explain_file,
    }
    for option, path in asked.items():
        if path is not None:
            check_file(option, path)
    if settings.images_dir is not None:
        _check_images(settings.images_dir)


def check_baselines(settings: Settings, typed: OptionValue | None) -> None:
    """Find out whether there is a folder of baselines that was typed; a run that records makes it.

    One that is not there would make every case NEW. Where nothing was typed, or in a file of the project, there is none
    before somebody accepts the first results.

    Args:
        settings: Of the run.
        typed: What the command line says; None where it says nothing.

    Raises:
        OptionError: It is not there.
    """
    if typed is None or settings.update_baselines or settings.baselines.is_dir():
        return
    raise OptionError(
        f"{typed}: there is no such folder.{meant_folder(settings.baselines)} Name the folder of the baseline files, "
        f"or add --sdperf-update-baselines, which makes it and records what is measured."
    )


def check_cache(folder: Path) -> None:
    """Find out whether there is a cache folder, or one can be made. What is in one may be used without writing to it.

    Raises:
        OptionError: It cannot be made.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise OptionError(
            f"the cache folder {folder} cannot be made: {error.strerror}. Choose another folder with "
            f"--sdperf-cache-dir=FOLDER."
        ) from error


def check_file(option: str, path: Path) -> None:
    """Find out whether a file can be written, without touching it.

    Raises:
        OptionError: It cannot.
    """
    try:
        check_writable(path)
    except OSError as error:
        raise OptionError(
            f"{option}={path} cannot be written: {error.strerror}. Name a file in a writable folder with {option}=FILE."
        ) from error


def _check_images(folder: Path) -> None:
    """Find out whether pictures can be drawn and written; the folder is made.

    Raises:
        OptionError: They cannot.
    """
    spelled = f"--sdperf-images={folder}"
    if importlib.util.find_spec("PIL") is None:
        raise OptionError(
            f"{spelled} needs pillow, which is not installed; type: {install_command('pictures', 'pillow')}"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OptionError(
            f"{spelled}: this folder cannot be made: {error.strerror}. Name another one with --sdperf-images=FOLDER."
        ) from error
