"""Sections of what checks found out: fused operators, agreement step by step, and the tables of the others."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pytest_sdperf.checks.fusions.table import fused_sums, operators_of, standing_lines
from pytest_sdperf.checks.fusions.target import METRIC
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.checks.reporting.columns import case_label
from pytest_sdperf.core.files.strict_json import convert
from pytest_sdperf.core.units import share
from pytest_sdperf.core.values.outcomes import Outcome
from pytest_sdperf.fusing.explain import Explanation, sentences
from pytest_sdperf.report.checks import check_tables
from pytest_sdperf.report.page.merged import Device
from pytest_sdperf.report.page.parts import Block, Cell, Figure, Grid, grid_of, matrix

_PNG = b"\x89PNG"


def fused(reports: Iterable[CaseReport]) -> list[Block]:
    """Return how many of each operator a component has at every optimization, and why others are missing."""
    reports = list(reports)
    found: dict[str, list[CaseReport]] = {}
    for report in reports:
        if any(most for _, _, most in operators_of(report)):
            case = report.case
            how = f"by {case.fuser}, " if case.fuser else ""
            title = (
                f"{case.model} {case.component}, {how}from {case.exporter}, opset {case.opset}, {case.shapes} shapes"
            )
            found.setdefault(title, []).append(report)
    blocks = [Block(texts=list(fused_sums(reports)))] if found else []
    for title, mine in found.items():
        cells: dict[tuple[str, str], Cell] = {}
        for report in mine:
            for name, count, most in operators_of(report):
                cells[name, report.case.optimization] = _of(count, most)
        blocks.append(
            Block(
                title,
                grids=[matrix("Operators by optimization", "operator", cells)],
                texts=_standing(mine),
                fold=len(blocks) > 4,
            )
        )
        blocks += [
            Block(f"{one.case.optimization}: {text}", texts=why, fold=True)
            for one in mine
            for text, why in _missed(one)
        ]
    return blocks


def _of(count: int, most: int) -> Cell:
    """Return `16 of 16`; what there is more of is said behind it."""
    if not most:
        return Cell(f"{count} left", style="yellow") if count else Cell("none left")
    more = f", {count - most} more" if count > most else ""
    return Cell(f"{min(count, most)} of {most}{more}", style="yellow" if count < most else "")


def _standing(reports: Iterable[CaseReport]) -> list[str]:
    return list(dict.fromkeys(text for report in reports for text in standing_lines(report.optimizations)))


def _missed(report: CaseReport) -> Iterator[tuple[str, list[str]]]:
    """Yield the sentence of each verdict that tells of missing operators, with the reason of each."""
    explained = report.checks[METRIC].explanation
    for verdict in report.verdicts:
        if verdict.metric == METRIC and verdict.details:
            why = list(verdict.details)
            if explained is not None:
                told = convert(explained, Explanation)
                component = report.case.component
                each = (sentences([one], component=component, most=1, all_of_them="")[0] for one in told.unfused)
                why = [*each, *told.limits, *told.notes] or why
            yield f"{verdict.outcome.value} {verdict.sentence} [{verdict.code}]", why


def agreement(devices: Sequence[Device]) -> list[Block]:
    """Return the curve of each request that was compared step by step, and pictures of its steps."""
    blocks: list[Block] = []
    for device in devices:
        strips = {nodeid: path for run in device.runs for nodeid, path in run.strips.items()}
        for report in device.reports:
            label = f"{case_label(report.case, report.case.component, batch=True).strip()}{_on(device, devices)}"
            figures = [
                _steps_figure(f"{label}, {name}{f' of side {side}' if side else ''}", one)
                for name, check in report.checks.items()
                for side, one in _with_steps(check.finding)
            ]
            pictures = []
            if report.nodeid in strips:
                content = strips[report.nodeid].read_bytes()
                uri = f"data:image/png;base64,{base64.b64encode(content).decode()}"
                pictures = [(uri, f"{label}: both results step by step, and their difference")] * content.startswith(
                    _PNG
                )
            if figures or pictures:
                blocks.append(Block(label, figures, pictures=pictures, fold=len(blocks) > 1))
    return blocks


def _with_steps(finding: Any, side: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each agreement that has steps, of a finding as JSON, with its side of an A/B."""
    if isinstance(finding, list):
        for one in finding:
            yield from _with_steps(one, side)
    elif isinstance(finding, dict) and isinstance(finding.get("steps"), list) and "limit" in finding:
        if finding["steps"]:
            yield side, finding
    elif isinstance(finding, dict):
        for name, one in finding.items():
            yield from _with_steps(one, name)


def _steps_figure(title: str, found: Mapping[str, Any]) -> Figure:
    """Return the error after every step, that of plain torch, and the limit."""
    names = {"error": "error", "reference_error": f"plain {found.get('by', 'torch')}", "limit": "limit"}
    rows, curves = [], []
    for number, step in enumerate(found["steps"], 1):
        values = {name: float(step[name]) for name in names}
        beyond = not values["error"] <= values["limit"]
        rows.append(
            [
                Cell(str(number)),
                *(
                    Cell(
                        f"{value:.2e}",
                        value if math.isfinite(value) else None,
                        "red" if beyond and name == "error" else "",
                    )
                    for name, value in values.items()
                ),
            ]
        )
        curves += [
            {"x": number, "s": names[name], "v": value} for name, value in values.items() if math.isfinite(value)
        ]
    error, limit = float(found["error"]), float(found["limit"])
    used = f", {share(error / limit)} of it" if math.isfinite(error) and limit > 0 else ""
    where = (
        "the first beyond its limit is" if found["outcome"] == Outcome.FAILED.value else "the nearest to its limit is"
    )
    answer = f"{found['outcome']}: {where} {found['culprit']}, {error:.2e} of {limit:.2e}{used}."
    grid = Grid(title, ("step", *names.values()), rows)
    return Figure("steps", title, answer, {"curves": curves, "names": list(names.values())}, grid)


def tables(devices: Sequence[Device]) -> list[Block]:
    """Return the table of every check, as the terminal shows it."""
    return [
        Block(grids=[grid_of(table, title=f"{table.title}{_on(device, devices)}")])
        for device in devices
        for table in check_tables(device.reports)
    ]


def _on(device: Device, devices: Sequence[Device]) -> str:
    return f" on {device.name}" if len(devices) > 1 else ""
