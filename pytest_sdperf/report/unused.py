"""Which stored cases a run did not use, and how the report says so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pytest_sdperf.baselines.stored import Baseline
from pytest_sdperf.baselines.unused import unused
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.checks.reporting.line import Line
from pytest_sdperf.core.labels import engine_label
from pytest_sdperf.core.settings import Selection
from pytest_sdperf.report.run_summary import RunSummary

SILENT = "its test brought no result"
GONE = "nothing that these options collect measures it any more"


@dataclass(frozen=True)
class Unused:
    """Stored cases that a run did not use.

    Attributes:
        found: Case key -> why.
        not_looked_for: Why nobody looked; empty where somebody did, or there is no baseline.
    """

    found: Mapping[str, str] = field(default_factory=dict)
    not_looked_for: str = ""


def unused_cases(baseline: Baseline | None, summary: RunSummary, reports: Sequence[CaseReport]) -> Unused:
    """Return the stored cases that nothing measured; a case that failed or was judged in any way was used.

    Args:
        baseline: Of the device; None where there is none.
        summary: Of the run.
        reports: Of the run.
    """
    if baseline is None or not summary.collected:
        return Unused()
    if summary.narrowed or not summary.ended:
        return Unused(not_looked_for=summary.narrowed or "this run ended early")
    used = {report.case.key for report in reports if report.measurement or report.verdicts or report.problem}
    left = baseline.cases.keys() - used
    gone = {stored.case.key: GONE for stored in unused(baseline, summary.collected, summary.asked)}
    silent = {case.key: SILENT for case in summary.collected if case.key in left}
    skipped = {key: f"its test was skipped: {why}" for key, why in summary.skipped.items() if key in left}
    return Unused(dict(sorted({**silent, **skipped, **gone}.items())))


def unused_lines(found: Unused, *, fails: bool) -> Iterator[Line]:
    """Yield one line per stored case that nothing used, or that nobody looked for them."""
    if found.not_looked_for:
        yield Line(f"unused baseline entries were not looked for: {found.not_looked_for}")
    for key, why in found.found.items():
        yield Line(f"UNUSED {key}: in the baseline, but {why}", ("red" if fails else "yellow",))


def asked_axes(selection: Selection) -> dict[str, tuple[str, ...]]:
    """Return what the options name: field of a case -> values."""
    named = {
        "model": selection.models,
        "component": selection.components,
        "engine": tuple(engine_label(engine.label, engine.options) for engine in selection.engines),
        "optimization": selection.optimizations,
        "batch_size": tuple(map(str, selection.batch_sizes)),
    }
    return {name: values for name, values in named.items() if values}
