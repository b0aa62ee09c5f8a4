"""The page: its sections in order, rendered into one file that needs no other."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_sdperf.baselines.files import rounded, write_atomically
from pytest_sdperf.baselines.published import Published
from pytest_sdperf.baselines.stored import Baseline
from pytest_sdperf.checks.ab.table import pair_lines
from pytest_sdperf.checks.pipelines.tables.artifacts import artifact_table
from pytest_sdperf.checks.pipelines.tables.energy import energy_table
from pytest_sdperf.checks.pipelines.tables.fairness import fairness_lines
from pytest_sdperf.checks.pipelines.tables.floors import floor_table, floors_not_known
from pytest_sdperf.checks.pipelines.tables.latencies import LEGEND
from pytest_sdperf.checks.pipelines.tables.memory import memory_table
from pytest_sdperf.checks.pipelines.tables.requests import request_table
from pytest_sdperf.checks.pipelines.tables.runtime_report import runtime_report_lines
from pytest_sdperf.checks.reporting.columns import Table
from pytest_sdperf.checks.reporting.line import Line
from pytest_sdperf.core.errors import OptionError
from pytest_sdperf.core.units import plural
from pytest_sdperf.core.values import to_json
from pytest_sdperf.report.findings import Finding, count_line, findings, first_of_each_kind, notice_lines
from pytest_sdperf.report.header import header_texts
from pytest_sdperf.report.next_command import next_lines
from pytest_sdperf.report.page import checked, over_time, speed
from pytest_sdperf.report.page.measured import rows_of
from pytest_sdperf.report.page.merged import Device, PageRun, merged
from pytest_sdperf.report.page.parts import Block, Cell, Grid, Section, grid_of
from pytest_sdperf.report.remarks import remark_lines
from pytest_sdperf.report.terminal import passed_lines
from pytest_sdperf.report.tolerances import tolerance_lines
from pytest_sdperf.report.unused import unused_cases, unused_lines

FOLDER = Path(__file__).parent
_WIDE = 10**6
_NAMED = 4  # models in the title
_FULL = 5  # findings that stand open
_COLOURS = {"red": "Red: not in order", "yellow": "Amber: look at it", "green": "Green: in order", "": "Not judged"}
# Findings that are folded, because nothing has to be done about them.
_FOLDED = {"IMPROVED": "Better than stored", "GAP": "As stored, with operators missing"}
_METHOD = (
    "Each case is timed in fresh processes; its latency is the median of their medians, and a range is that of the "
    "processes. Bars are linear from zero, errors of steps logarithmic. Verdicts and limits are those of the run: this "
    "page derives none."
)


def write_page(
    path: Path,
    runs: Sequence[PageRun],
    stored: Mapping[str, Baseline],
    *,
    option: str,
    published: Sequence[Published] = (),
    shipped: Sequence[Baseline] = (),
) -> None:
    """Write the page, whole or not at all.

    Args:
        path: Where.
        runs: At least one.
        stored: Slug -> baseline, for the history of cases.
        option: What names the file.
        published: Published tables; rows of the same model and GPU family stand beside the measured ones.
        shipped: Baselines that come with the project, likewise.

    Raises:
        OptionError: It cannot be written.
    """
    text = page_text(runs, stored, published=published, shipped=shipped)
    try:
        write_atomically(path, text)
    except OSError as error:
        raise OptionError(
            f"cannot write the page to {path}: {error.strerror}. Name a file in a writable folder with {option}=FILE."
        ) from error


def page_text(
    runs: Sequence[PageRun],
    stored: Mapping[str, Baseline],
    *,
    published: Sequence[Published] = (),
    shipped: Sequence[Baseline] = (),
) -> str:
    """Return the page as HTML; see `write_page`."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    devices = merged(runs, stored)
    sections = [section for section in _sections(devices, published, shipped) if section.blocks]
    script = "\n".join(_file(name) for name in ("vendor/d3.min.js", "vendor/plot.umd.min.js", "page.js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    environment = Environment(
        autoescape=True,
        loader=FileSystemLoader(FOLDER),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    figures = [figure for section in sections for block in section.blocks for figure in block.figures]
    grids = [grid for section in sections for block in section.blocks for grid in block.grids]
    lines = [cell.points for grid in grids for row in grid.rows for cell in row if cell.points]
    return environment.get_template("page.html").render(
        answer=_answer(devices),
        data=_json({"figures": [{"kind": one.kind, **one.data} for one in figures], "lines": lines}),
        devices=devices,
        licences=[_file(f"vendor/LICENSE-{name}") for name in ("d3", "plot")],
        script=Markup(script),  # noqa: S704 - files of this package
        script_hash=digest,
        sections=sections,
        style=Markup(_file("page.css")),  # noqa: S704 - likewise
        title=_title(devices),
    )


def _file(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def _json(data: Any) -> Any:
    """Return JSON that nothing in it can end: no character of HTML, and none that is not ASCII."""
    from markupsafe import Markup

    text = json.dumps(rounded(data), separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704 - escaped above


def _title(devices: Sequence[Device]) -> str:
    models = dict.fromkeys(report.case.model for device in devices for report in device.reports)
    what = ", ".join(models) if len(models) <= _NAMED else plural(len(models), "model")
    return f"{what or 'Nothing'} on {', '.join(dict.fromkeys(device.name for device in devices))}"


def _answer(devices: Sequence[Device]) -> dict[str, Any]:
    """Return the first screen: colour, sentence, what changed, what is not in order, and what to type next."""
    judged = [device for device in devices if device.judged]
    line = count_line(*(device.reports for device in judged))
    problems = [problem for device in judged for run in device.runs for problem in run.problems]
    colour = "red" if problems else line.styles[0] if judged else ""
    cases = len({report.case.key for device in devices for report in device.reports})
    newest = max((run.saved.date[:10] for device in devices for run in device.runs), default="")
    accepted = f"{plural(cases, 'case')} as they were accepted, the newest on {newest}; nothing is judged here"
    sentence = line.text if judged else accepted
    found = [
        (device, finding) for device in judged for finding in findings(device.reports, width=_WIDE, every=True, more="")
    ]
    told = {name: [_told(*one, judged) for one in found if one[1].kind.startswith(name)] for name in _FOLDED}
    fresh = [one for one in found if not one[1].kind.startswith(tuple(_FOLDED))]
    first = first_of_each_kind([finding for _, finding in fresh], _FULL)
    return {
        "colour": colour,
        "word": _COLOURS[colour],
        "sentence": f"{sentence[0].upper()}{sentence[1:]}.",
        "several": len(devices) > 1,
        "problems": problems,
        "changed": [(device.name, text) for device in judged for text in _changed(device)],
        "findings": [_told(*one, judged) for one in fresh if one[1] in first],
        "more": [_told(*one, judged) for one in fresh if one[1] not in first],
        "folded": [(_FOLDED[name], found) for name, found in told.items() if found],
        "notices": [line.text.strip() for device in judged for line in _notices(device)],
        "next": [line.text for line in _next(judged)],
        "judged": bool(judged),
    }


def _told(device: Device, finding: Finding, devices: Sequence[Device]) -> dict[str, Any]:
    """Return the heading of a finding, and its lines."""
    heads = [line.text for line in finding.lines if not line.text.startswith(" ")]
    where = f" ({device.name})" if len(devices) > 1 else ""
    style = next((line.styles[0] for line in finding.lines if line.styles), "")
    lines = [line.text.strip() for line in finding.lines if line.text.startswith(" ")]
    return {"head": f"{heads[0]}{where}", "heads": heads[1:], "lines": lines, "style": style}


def _changed(device: Device) -> Iterator[str]:
    """Yield what differs from the baseline's subject, and how latencies changed."""
    if text := dict(header_texts(device.run)).get("changed"):
        yield text
    yield from (figure.answer for block in over_time.changes([device]) for figure in block.figures)


def _notices(device: Device) -> Iterator[Line]:
    run = device.runs[-1]
    yield from passed_lines(device.reports, width=_WIDE)
    yield from notice_lines(device.reports, width=_WIDE, candidates=run.saved.run.keeps_candidates)
    if not run.saved.run.pairs and not run.saved.run.interrupted:
        unused = unused_cases(device.baseline, run.saved.summary, device.reports)
        yield from unused_lines(unused, fails=run.saved.policy.fail_on_unused)


def _next(judged: Sequence[Device]) -> list[Line]:
    """Return what to type next, where one run is all that is shown."""
    runs = [run for device in judged for run in device.runs]
    alone = len(runs) == 1 and not runs[0].saved.run.altered
    return list(next_lines(runs[0].saved.reports, runs[0].saved.run, width=_WIDE)) if alone else []


def _sections(
    devices: Sequence[Device], published: Sequence[Published], shipped: Sequence[Baseline]
) -> Iterator[Section]:
    rows = rows_of(devices)
    reports = [report for device in devices for report in device.reports]
    every = {(report.nodeid, report.case.key): report for report in reports}.values()  # a build has no device
    intro = "The latency of every case that has a baseline."
    yield Section("changes", "Since the baseline", intro, over_time.changes(devices))
    marks = ", ".join(f"{mark} {text}" for mark, text in LEGEND.items())
    intro = f"Latency by optimization, engine and batch. Marks: {marks}."
    yield Section("ladder", "The optimization ladder", intro, speed.ladder(rows))
    others = speed.beside_ours(devices, rows, published, shipped)
    yield Section("beside", "Beside others", "Rows that others published of the same model and GPU family.", others)
    intro = "Of each component, how many operators are fused of those that there can be."
    yield Section("fused", "Fused operators", intro, checked.fused(every))
    more = [*_tables(devices, memory_table), *_tables(devices, energy_table), *_tables(devices, request_table)]
    pairs = [Block("A/B", code=text) for device in devices if (text := _lines(pair_lines(device.reports, width=_WIDE)))]
    intro = "By engine and batch: the median, and the range of the processes."
    yield Section("spread", "Latency and memory", intro, [*speed.spread(rows), *more, *pairs])
    not_known = Block(texts=floors_not_known(reports))
    blocks = [*speed.floors(rows), *_tables(devices, floor_table), *([not_known] if not_known.texts else [])]
    yield Section("floor", "Share of the physical floor", "How much of the possible speed is reached.", blocks)
    ran = _texts(
        "What ran, case by case", devices, lambda found, width: runtime_report_lines(found, width=width, every=True)
    )
    intro = "What the GPU ran in one call, by kind, from the last process."
    yield Section("kernels", "Kernels and what ran", intro, [*speed.kernels(rows), *ran])
    blocks = [*checked.agreement(devices), *checked.tables(devices)]
    yield Section("agreement", "Agreement and other checks", "How far results are from their reference.", blocks)
    yield Section("history", "History", "Cases that were measured more than once.", over_time.history(devices))
    builds = _tables(devices, lambda found: artifact_table(found, every=True))
    yield Section("builds", "Builds and warm starts", "What the files took to make, and how soon they answer.", builds)
    yield Section("environment", "Environment and method", _METHOD, list(_environment(devices)))


def _tables(devices: Sequence[Device], table: Any) -> list[Block]:
    made: list[tuple[Device, Table]] = [(device, table(device.reports)) for device in devices]
    return [
        Block(grids=[grid_of(one, title=f"{one.title[:1].upper()}{one.title[1:]} on {device.name}")])
        for device, one in made
        if one.rows
    ]


def _lines(lines: Iterable[Line]) -> str:
    return "\n".join(line.text for line in lines)


def _texts(title: str, devices: Sequence[Device], lines: Any) -> list[Block]:
    texts = [line.text.strip() for device in devices for line in lines(device.reports, width=_WIDE)]
    return [Block(title, texts=texts, fold=True)] if texts else []


def _environment(devices: Sequence[Device]) -> Iterator[Block]:
    for device in devices:
        told = [
            line.text
            for lines in (remark_lines(device.reports, width=_WIDE), fairness_lines(device.reports, width=_WIDE))
            for line in lines
        ]
        told += [line.text for line in tolerance_lines(device.reports, device.run.idle, width=_WIDE)]
        if told:
            yield Block(f"Remarks on {device.name}", texts=told, fold=True)
        for run in device.runs:
            saved = run.saved
            found = {"date": saved.date, **dict(header_texts(saved.run)), "commit": saved.run.commit}
            found |= {"command": saved.run.command if run.judged else ""}
            rows = [[Cell(name), Cell(text)] for name, text in found.items() if text]
            what = {"policy": saved.policy, "machine": saved.run.machine, "settings": saved.settings}
            code = json.dumps(to_json(what), indent=1, default=str) if run.judged else ""
            title = f"{device.name}, {saved.date}"
            yield Block(title, grids=[Grid(title, ("what", "value"), rows)], code=code, fold=True)
