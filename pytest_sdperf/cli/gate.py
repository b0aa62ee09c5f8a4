"""`sdperf gate`: judge what `--sdperf-json` wrote; needs no GPU. The exit status is the one of a run."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Generator
from pathlib import Path

from pytest_sdperf.baselines.files import write_atomically
from pytest_sdperf.baselines.sources import BaselineFiles
from pytest_sdperf.cases.options.option import OptionValue
from pytest_sdperf.cases.options.parsing import verdicts
from pytest_sdperf.cli.command import Commands
from pytest_sdperf.cli.gate_run import check_device, gate_lines, gate_markdown, judge_saved, stricter
from pytest_sdperf.cli.project import ELSEWHERE, existing_folder, folders
from pytest_sdperf.core.settings import FAIL_ON
from pytest_sdperf.report.output_files import check_file
from pytest_sdperf.report.results import read_results


def add_to(commands: Commands) -> None:
    """Add the command."""
    gate = commands.add_parser(
        "gate", help="judge saved results on a machine without a GPU", description=__doc__, allow_abbrev=False
    )
    gate.add_argument("results", type=Path, metavar="RESULTS.json", help="what a run wrote with --sdperf-json")
    gate.add_argument(
        "--gpu", required=True, metavar="SLUG", help="device of the results: as --sdperf-gpu names it, or cpu"
    )
    gate.add_argument(
        "--baselines", type=Path, metavar="FOLDER", help="default: the folder of a run that is started here"
    )
    gate.add_argument("--fail-on", metavar="NAMES", help=f"of {', '.join(FAIL_ON)}; default: as the run was told")
    gate.add_argument("--markdown", type=Path, metavar="FILE", help="write the report as Markdown, too")
    gate.add_argument("-v", "--verbose", action="count", default=0, help="every table; twice: of every case, too")
    gate.add_argument("-q", "--quiet", action="store_true", help="ten lines")
    gate.set_defaults(lines=gate_results)


def gate_results(chosen: argparse.Namespace) -> Generator[str, None, int]:
    """Yield the report of saved results and return their exit status."""
    named = existing_folder(chosen.baselines) if chosen.baselines is not None else None
    fail_on = verdicts(OptionValue(chosen.fail_on, "--fail-on")) if chosen.fail_on is not None else None
    if chosen.markdown is not None:
        check_file("--markdown", chosen.markdown)
    saved = read_results(chosen.results)
    check_device(saved, chosen.gpu, path=chosen.results)
    project = folders(unreadable=ELSEWHERE)
    own, registered = named or project.baselines, project.registered
    sources = BaselineFiles.of_device(own, registered, slug=saved.run.slug, machine=saved.run.machine)
    gated = judge_saved(saved, sources, policy=stricter(saved.policy, fail_on))
    if chosen.markdown is not None:
        write_atomically(chosen.markdown, gate_markdown(gated, results=chosen.results))
    width = shutil.get_terminal_size().columns
    verbosity = -1 if chosen.quiet else chosen.verbose
    for line in gate_lines(gated, results=chosen.results, width=width, verbosity=verbosity):
        yield line.text
    return gated.status
