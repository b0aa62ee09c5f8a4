"""`sdperf report`: one page of what `--sdperf-json` wrote, of several runs and machines; needs no GPU."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

from pytest_sdperf.acceptance.sessions import measurement_of
from pytest_sdperf.baselines import published
from pytest_sdperf.baselines.shipped import measured
from pytest_sdperf.baselines.stored import Baseline
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.cli.baselines.accept import results_in
from pytest_sdperf.cli.baselines.places import existing
from pytest_sdperf.cli.command import Commands
from pytest_sdperf.core.files import strict_json
from pytest_sdperf.core.labels import engine_label
from pytest_sdperf.core.machine.gpu_facts import load_gpus
from pytest_sdperf.core.units import plural
from pytest_sdperf.report.output_files import check_file
from pytest_sdperf.report.page.merged import PageRun, strips_of
from pytest_sdperf.report.page.write import write_page
from pytest_sdperf.report.results import SavedResults, read_results
from pytest_sdperf.report.run_info import RunInfo
from pytest_sdperf.report.run_summary import RunSummary


def add_to(commands: Commands) -> None:
    """Add the command."""
    report = commands.add_parser(
        "report", help="make a page of saved results, of several runs and machines", description=__doc__
    )
    report.add_argument(
        "results",
        type=Path,
        nargs="+",
        metavar="RESULTS",
        help="what --sdperf-json wrote, a folder of such files, or a baseline file, whose sessions become the history",
    )
    report.add_argument(
        "--html", type=Path, metavar="FILE", default=Path("report.html"), help="the page; default: report.html"
    )
    report.set_defaults(lines=report_lines)


def report_lines(chosen: argparse.Namespace) -> Iterator[str]:
    """Write the page and yield what it holds.

    Raises:
        OptionError: The page cannot be written.
        ResultsError, BaselineError: A file is not what it is given for.
    """
    check_file("--html", chosen.html)
    given = dict.fromkeys(chosen.results)
    stored = {path: found for path in given if (found := _baseline(path)) is not None}
    files, _ = results_in([path for path in given if path not in stored])
    runs = [_of_results(path) for path in files]
    runs += [_of_baseline(path, baseline) for path, baseline in stored.items()]
    by_slug = {_slug(path, baseline): baseline for path, baseline in stored.items()}
    tables = published.load(published.folder())
    write_page(chosen.html, runs, by_slug, option="--html", published=tables, shipped=measured())
    held = [plural(len(files), "file") + " of results"] * bool(files) + [plural(len(stored), "baseline")] * bool(stored)
    yield f"wrote {chosen.html}: {' and '.join(held)}, {chosen.html.stat().st_size / 1e6:.1f} MB"


def _of_results(path: Path) -> PageRun:
    saved = read_results(path)
    named = saved.settings.get("images_dir")
    folders = [Path(named).expanduser(), path.parent / Path(named).name] if isinstance(named, str) else []
    return PageRun(saved, strips=strips_of(saved, *folders))


def _baseline(path: Path) -> Baseline | None:
    """Return the content of a baseline file; None for another, of which its own reader says what is wrong."""
    try:
        data = json.loads(strict_json.text_of(path))
    except (OSError, ValueError, RecursionError):
        return None
    return existing(path) if isinstance(data, dict) and "cases" in data and "reports" not in data else None


def _slug(path: Path, baseline: Baseline) -> str:
    return str(baseline.machine.get("slug") or path.stem)


def _of_baseline(path: Path, baseline: Baseline) -> PageRun:
    """Return the last session of each case, as a run that judged nothing."""
    slug, cases = _slug(path, baseline), [baseline.cases[key] for key in sorted(baseline.cases)]
    facts = load_gpus().facts(slug)
    reports = tuple(
        CaseReport(f"session of {one.last.date}", one.case, measurement_of(one.last, one.case)) for one in cases
    )
    engines = {engine_label(one.case.engine, one.case.engine_options): one.last.subject for one in cases}
    run = RunInfo(slug, slug, facts.family if facts else "", machine=baseline.machine, engines=engines)
    date = max((one.last.date for one in cases), default="")
    saved = SavedResults(date=date, run=run, summary=RunSummary(), policy=Policy(), settings={}, reports=reports)
    return PageRun(saved, judged=False)
