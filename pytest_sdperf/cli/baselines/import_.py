"""`sdperf baselines import`: numbers of other tools, to stand beside measurements; they judge nothing."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import msgspec

from pytest_sdperf.baselines import privacy, published
from pytest_sdperf.baselines.files import pretty, write_atomically
from pytest_sdperf.baselines.imported import About, read_foreign
from pytest_sdperf.cli.baselines.places import Places
from pytest_sdperf.cli.command import Commands
from pytest_sdperf.core.errors import BaselineError, OptionError
from pytest_sdperf.core.units import plural


def add_to(actions: Commands) -> None:
    """Add the action."""
    parser = actions.add_parser("import", help="show numbers of other tools beside those of this suite")
    parser.add_argument(
        "file", type=Path, metavar="FILE", help="benchmark_result.csv of onnxruntime, or JSON of pytest-benchmark"
    )
    parser.add_argument("--gpu", required=True, metavar="DEVICE", help="of the numbers: a family or a slug")
    parser.add_argument("--model", default="", metavar="NAME", help="of the numbers, where the file does not say it")
    parser.add_argument("--name", default="", metavar="NAME", help="of the table's file; default: FILE-DEVICE-MODEL")
    Places.add_options(parser, state=False)
    parser.set_defaults(lines=import_file)


def import_file(chosen: argparse.Namespace) -> Iterator[str]:
    """Yield what was written, and where.

    Raises:
        OptionError: The file cannot be understood, or would replace another one.
        BaselineError: The table cannot be written.
        PrivacyError: It names a person, a machine or a device.
    """
    found = read_foreign(chosen.file, About(chosen.gpu, chosen.model))
    data = msgspec.to_builtins(found)
    privacy.check(data, privacy.identity())
    path = published.own_folder(Places(chosen).baselines) / f"{chosen.name or _usual_name(chosen)}.json"
    if not chosen.name and path.exists() and published.read(path) != found:
        raise OptionError(
            f"{path} holds other numbers already. Type --name={path.stem} to replace them, or another name to keep "
            f"both."
        )
    try:
        write_atomically(path, pretty(data) + "\n")
    except OSError as error:
        raise BaselineError(
            f"cannot write {path}: {error.strerror}. Name a writable folder with --baselines=FOLDER."
        ) from error
    for table in found.tables:
        yield f"{table.name}: {plural(len(table.rows), 'row')}"
    yield f"written to {path}; shown beside measurements of {found.tables[0].family}, never used to judge them"


def _usual_name(chosen: argparse.Namespace) -> str:
    """Return a name that says of what the numbers are: onnxruntime always calls its file the same."""
    return "-".join(filter(None, (chosen.file.stem, chosen.gpu, chosen.model)))
