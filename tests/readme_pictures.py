"""Draws the two pictures of the README: the page, and the terminal.

python tests/readme_pictures.py       # after a change of the page, the report or the shipped baseline; needs Chromium

Both show the sessions of an H200 that come with the project: the newest of each case of sd15's UNet, judged by those
before it.
"""

from __future__ import annotations

import html
import io
import tempfile
from pathlib import Path

import msgspec
from browser import browser
from PIL import Image

from pytest_sdperf.acceptance.sessions import measurement_of
from pytest_sdperf.baselines import published
from pytest_sdperf.baselines.shipped import measured
from pytest_sdperf.baselines.stored import Baseline, StoredCase
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.judging.verdict import judge
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.fusing.optimizations import LADDER
from pytest_sdperf.report.page.merged import PageRun
from pytest_sdperf.report.page.write import page_text
from pytest_sdperf.report.results import SavedResults
from pytest_sdperf.report.run_info import RunInfo
from pytest_sdperf.report.run_summary import RunSummary
from pytest_sdperf.report.terminal import report_lines

FOLDER = Path(__file__).parent.parent / "docs"
COLOURS = {"red": "#ff7b72", "yellow": "#e3b341", "green": "#7ee787", "cyan": "#79c0ff"}
_ORDER = [one.name for one in LADDER]


def newest_session() -> tuple[SavedResults, Baseline]:
    """Return the newest session of every shipped UNet of sd15 as a run, and the earlier ones as its baseline."""
    (shipped,) = (one for one in measured() if one.machine["slug"] == "h200")
    cases = [one for one in shipped.cases.values() if (one.case.model, one.case.component) == ("sd15", "unet")]
    cases.sort(key=lambda one: _ORDER.index(one.case.optimization))
    earlier = {one.case.key: known for one in cases if (known := _before(one)) is not None}
    reports = tuple(_report(one, earlier.get(one.case.key)) for one in cases)
    run = RunInfo(
        "NVIDIA H200", "h200", "h200", shipped.machine, baselines="baselines/h200.json", baseline_cases=len(earlier),
        baseline_date=max(one.last.date for one in earlier.values()), compared=len(earlier),
        command="pytest suites --gpu=h200 --engine=torch,ort-cuda,torch-compile --optimization=ladder --batch-size=1,8",
    )  # fmt: skip
    baseline = Baseline(machine=shipped.machine, cases=earlier)
    summary = RunSummary(selected=len(reports), measured=True, collected=tuple(one.case for one in cases))
    date = max(one.last.date for one in cases)
    return SavedResults(date=date, run=run, summary=summary, policy=Policy(), settings={}, reports=reports), baseline


def _before(stored: StoredCase) -> StoredCase | None:
    sessions = stored.sessions[:-1]
    return msgspec.structs.replace(stored, sessions=sessions, anchor=sessions[0]) if sessions else None


def _report(stored: StoredCase, before: StoredCase | None) -> CaseReport:
    measurement = measurement_of(stored.last, stored.case)
    verdicts = judge(measurement, before, policy=Policy(processes=len(stored.last.samples) or 3))
    case = stored.case
    name = f"{case.model}-{case.component}-on-{case.engine}-at-{case.optimization}-b{case.batch_size}"
    return CaseReport(f"suites/test_pipelines.py::test_speed[{name}]", case, measurement, verdicts, policy=Policy())


def terminal(saved: SavedResults) -> str:
    """Return what the terminal says of a run, as a page."""
    lines = []
    for line in report_lines(saved.reports, saved.run, width=96):
        colour = next((COLOURS[style] for style in line.styles if style in COLOURS), "inherit")
        weight = 700 if "bold" in line.styles else 400
        lines.append(f'<span style="color:{colour};font-weight:{weight}">{html.escape(line.text)}</span>')
    style = "margin:0;padding:20px;background:#0d1117;color:#e6edf3;font:14px/1.35 'DejaVu Sans Mono',monospace"
    return (
        f'<!doctype html><meta charset="utf-8"><body style="margin:0"><pre style="{style}">{chr(10).join(lines)}</pre>'
    )


def main() -> None:
    """Write the pictures."""
    saved, baseline = newest_session()
    page = page_text([PageRun(saved)], {"h200": baseline}, published=published.load(published.folder()))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        for name, text, size in (("page", page, (1100, 1420)), ("terminal", terminal(saved), (880, 300))):
            path = Path(folder) / f"{name}.html"
            path.write_text(text, encoding="utf-8")
            with browser(Path(folder) / "profile") as opened:
                opened.open(path, width=size[0], height=size[1])
                picture = Path(folder) / f"{name}.png"
                opened.picture(picture, whole=name == "terminal")
            small = io.BytesIO()
            Image.open(picture).convert("RGB").quantize(160).save(small, "png", optimize=True)
            (FOLDER / f"{name}.png").write_bytes(small.getvalue())


if __name__ == "__main__":
    main()
