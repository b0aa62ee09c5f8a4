"""Files and folders that a run was asked to write."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from pytest_sdperf.baselines.files import check_writable
from pytest_sdperf.errors import OptionError
from pytest_sdperf.interpreter import install_command
from pytest_sdperf.settings import Settings


def check_outputs(settings: Settings) -> None:
    """Find out now, and not after an hour of measuring, whether the files that were asked for can be written.

    Raises:
        OptionError: One cannot.
    """
    for option, path in (("--sdperf-json", settings.json_file), ("--sdperf-explain", settings.explain_file)):
        if path is not None:
            check_file(option, path)
    if settings.images_dir is not None:
        _check_images(settings.images_dir)


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
