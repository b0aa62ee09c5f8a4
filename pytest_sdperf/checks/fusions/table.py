"""What fused: how many of each operator a build has, of how many there can be."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping

from pytest_sdperf.checks.fusions.target import METRIC
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.checks.reporting.line import Line, wrapped
from pytest_sdperf.fusing.explain import short

_INDENT = "  "


def fused_lines(reports: Iterable[CaseReport], *, width: int, every: bool = False) -> Iterator[Line]:
    """Yield a line per component and fuser, of the optimization at which most can be fused.

    Args:
        reports: Of the run.
        width: Columns of the terminal.
        every: Of every optimization.
    """
    texts = fused_texts(reports, every=every)
    if texts:
        yield Line("fused operators", ("bold",))
    for text in texts:
        yield from wrapped(text, width=width, first=_INDENT, rest=_INDENT * 2)


def fused_texts(reports: Iterable[CaseReport], *, every: bool = False) -> list[str]:
    """Return the same as texts: `sd15 unet bias-add (native): GroupNorm[silu] 45 of 45, ...`."""
    shown = _shown(reports, every=every)
    exporters = len({(report.case.exporter, report.case.opset, report.case.shapes) for report in shown}) > 1
    return [f"{_label(report, exporters=exporters)}: {_told(report)}" for report in shown]


def fused_sums(reports: Iterable[CaseReport]) -> Iterator[str]:
    """Yield a text per fuser: of how many operators there can be, how many each graph has.

    `fused operators by native: text_encoder 49 of 49, unet 293 of 293`.
    """
    shown = _shown(reports)
    several = len({report.case.model for report in shown}) > 1
    found: dict[str, list[str]] = {}
    for report in shown:
        case = report.case
        got, targets = _counts(report)
        there = sum(min(got.get(name, 0), target) for name, target in targets.items())
        what = f"{case.model} {case.component}" if several else case.component
        how = f"by {case.fuser}" if case.fuser else case.optimization  # nobody fused a graph that was taken as it is
        found.setdefault(how, []).append(f"{what} {there:,} of {_possible(report):,}")
    yield from (f"fused operators {how}: {', '.join(texts)}" for how, texts in found.items())


def _shown(reports: Iterable[CaseReport], *, every: bool = False) -> list[CaseReport]:
    """Return the report of each component and fuser at the optimization at which most can be fused, or every one."""
    shown: dict[str, CaseReport] = {}
    for report in reports:
        key = report.case.key if every else dataclasses.replace(report.case, optimization="").key
        if _possible(report) and (key not in shown or _possible(report) >= _possible(shown[key])):
            shown[key] = report
    return list(shown.values())


def operators_of(report: CaseReport) -> list[tuple[str, int, int]]:
    """Return each operator of a build: its name, how many it has, how many there can be (0: none should be left)."""
    got, targets = _counts(report)
    return [(short(name), got.get(name, 0), most) for name, most in sorted(targets.items())]


def standing_lines(found: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return one line per component: `optimizations of unet: fp16 yes, fmha yes, nhwc-conv no (98 Conv left)`."""
    return [
        f"optimizations of {component}: {', '.join(f'{name} {text}' for name, text in optimizations.items())}"
        for component, optimizations in found.items()
    ]


def _possible(report: CaseReport) -> int:
    return sum(_counts(report)[1].values())


def _counts(report: CaseReport) -> tuple[Mapping[str, int], Mapping[str, int]]:
    """Return how many a test of fusions found of each, and how many there can be."""
    if METRIC not in report.checks:
        return {}, {}
    found = report.checks[METRIC].finding
    return found["counts"], {**found["allowed"], **found["expected"]}


def _label(report: CaseReport, *, exporters: bool) -> str:
    case = report.case
    how = [case.fuser, f"from {case.exporter}, opset {case.opset}, {case.shapes} shapes" if exporters else ""]
    told = ", ".join(filter(None, how))
    return f"{case.model} {case.component} {case.optimization}{told and f' ({told})'}"


def _told(report: CaseReport) -> str:
    """List what there is of what there can be, and what should have been taken in."""
    operators = operators_of(report)
    there = [f"{name} {min(count, most)} of {most}" for name, count, most in operators if most]
    more = [
        f"{count - most} {f'more {name}' if most else f'{name} left'}"
        for name, count, most in operators
        if count > most
    ]
    return ", ".join(there + more)
