"""`sdperf baselines export`: every stored session as rows of numbers, for tools that look for drift."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from pytest_sdperf.cli.baselines.places import Places, files_in
from pytest_sdperf.cli.command import Commands
from pytest_sdperf.core.errors import BaselineError
from pytest_sdperf.report.exported import COLUMNS, csv_lines


def add_to(actions: Commands) -> None:
    """Add the action."""
    parser = actions.add_parser("export", help="print every stored session as rows of numbers")
    parser.add_argument("--csv", action="store_true", required=True, help=f"columns: {', '.join(COLUMNS)}")
    Places.add_options(parser, state=False)
    parser.set_defaults(lines=export)


def export(chosen: argparse.Namespace) -> Iterator[str]:
    """Yield the lines of a CSV file.

    Raises:
        BaselineError: There is no baseline, or one cannot be trusted.
    """
    folder = Places(chosen).baselines
    files = [(path.stem, baseline) for path, baseline in files_in(folder)]
    if not files:
        raise BaselineError(
            f"there is no baseline in {folder}. Name the folder with --baselines=FOLDER, or record one with "
            f"--sdperf-update-baselines."
        )
    yield from csv_lines(files)
