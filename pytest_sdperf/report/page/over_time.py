"""Sections of what changed: since the baseline, and over all sessions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

from pytest_sdperf.checks.pipelines.judging.latency import LATENCY
from pytest_sdperf.checks.reporting.columns import batches_differ, case_label, request_label
from pytest_sdperf.core.units import percent, plural, seconds
from pytest_sdperf.core.values.outcomes import Outcome
from pytest_sdperf.report.page.merged import Device
from pytest_sdperf.report.page.parts import Block, Cell, Figure, Grid, style_of


def changes(devices: Iterable[Device]) -> list[Block]:
    """Return how the latency of each case changed since its baseline."""
    blocks = []
    for device in devices:
        several = batches_differ(report.case for report in device.reports)
        found = [
            (report, verdict, verdict.obtained / verdict.expected)
            for report in device.reports
            if (verdict := report.verdict(LATENCY.name)) is not None and verdict.obtained and verdict.expected
        ]
        if not found:
            continue
        dots: list[dict[str, Any]] = []
        rows: list[list[Cell]] = []
        for report, verdict, ratio in found:
            case, text = report.case, percent(ratio)
            label = case_label(case, case.component, batch=several).strip()
            group, word = f"{case.model} {request_label(case)}", verdict.outcome.value
            dots.append({"y": group, "v": ratio - 1, "o": word, "n": label, "t": f"{text}, {word}"})
            ends = [Cell(seconds(value), value) for value in (verdict.expected, verdict.obtained) if value]
            rows.append([Cell(label), *ends, Cell(text), Cell(word, style=style_of(verdict.outcome))])
        label, largest = max(((dot["n"], ratio) for dot, (*_, ratio) in zip(dots, found, strict=True)), key=_distance)
        counted = Counter(verdict.outcome for _, verdict, _ in found)
        told = ", ".join(f"{counted[one]} {one.value}" for one in reversed(Outcome) if counted[one])
        answer = f"Latency of {plural(len(found), 'case')}: {told}. Most changed: {label}, {percent(largest)}."
        title = f"Change of latency on {device.name}"
        grid = Grid(title, ("case", "baseline", "now", "change", "verdict"), rows)
        blocks.append(Block(figures=[Figure("changes", title, answer, {"dots": dots}, grid)]))
    return blocks


def _distance(named: tuple[str, float]) -> float:
    return abs(math.log(named[1]))


def history(devices: Iterable[Device]) -> list[Block]:
    """Return a line per case that was measured more than once."""
    blocks = []
    for device in devices:
        cases = {report.case.key: report.case for report in device.reports if report.measurement is not None}
        several = batches_differ(cases.values())
        rows = []
        for key, case in cases.items():
            points = tuple(device.history.get(key, {}).items())
            if len(points) > 1:
                label = case_label(case, f"{case.component} {case.height}x{case.width}", batch=several).strip()
                (_, first_s), (_, last_s) = points[0], points[-1]
                dates = f"{points[0][0][:10]} to {points[-1][0][:10]}"
                change = Cell(percent(last_s / first_s))
                ends = (Cell(seconds(first_s), first_s), Cell(seconds(last_s), last_s))
                rows.append([Cell(label), Cell(str(len(points))), Cell(dates, points=points), *ends, change])
        if rows:
            headings = ("case", "times", "line", "first", "last", "change")
            blocks.append(Block(grids=[Grid(device.name, headings, rows)]))
    return blocks
