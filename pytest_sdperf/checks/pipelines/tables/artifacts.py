"""The build table: how large the files of a case are, what making them took, and when that was."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pytest_sdperf.checks.pipelines.judging.metrics import OURS
from pytest_sdperf.checks.pipelines.judging.our_metric import BUILD
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.checks.reporting.columns import Table, TableRow, batches_differ, case_label
from pytest_sdperf.core.units import disk_size, plural, seconds
from pytest_sdperf.core.values import Case, Measurement
from pytest_sdperf.core.values.artifact import Artifact, BuildStep
from pytest_sdperf.core.values.outcomes import Outcome

_COLUMNS = ("files", "compiled", "build", "made", "warm start")
_LEGEND = (
    "build: what making the files took when they were made, weights and cached steps included; warm start: until the "
    "first answer of a process that finds everything compiled, once its libraries are imported"
)
_METRICS = frozenset(name for name, metric in OURS.items() if metric.table == BUILD)
_FINE = (Outcome.PASSED, Outcome.HELD, Outcome.NEW)


def artifact_table(reports: Iterable[CaseReport], *, every: bool = False) -> Table:
    """Return one row per component that this run built something of, or whose files changed.

    Each is told once, also where engines that compile nothing load the same files.

    Args:
        reports: Of the run.
        every: Show also what came from the cache as it was.
    """
    told = [report for report in reports if report.measurement is not None]
    several = batches_differ(report.case for report in told)
    labelled: dict[str, _Component] = {}
    for report in told:
        for one in _components(report, every=every):
            labelled.setdefault(one.label(batch=several), one)
    alike: dict[tuple[str, Artifact], list[_Component]] = {}
    for one in labelled.values():
        alike.setdefault(one.alike(batch=several), []).append(one)
    return Table("build", _COLUMNS, tuple(_row(group, batch=several) for group in alike.values()), (_LEGEND,))


@dataclass(frozen=True)
class _Component:
    case: Case
    name: str
    artifact: Artifact
    measurement: Measurement

    def label(self, *, batch: bool, engine: str = "") -> str:
        return case_label(self.case, self.name, batch=batch, engine=engine)

    def alike(self, *, batch: bool) -> tuple[str, Artifact]:
        """Return what is the same of those that one row can stand for: engines that compile nothing of it."""
        compiles = self.artifact.compiled_bytes is not None
        return self.label(batch=batch, engine="" if compiles else "any"), self.artifact


def _row(alike: Sequence[_Component], *, batch: bool) -> TableRow:
    first, names = alike[0], {one.case.engine for one in alike}
    engine = plural(len(names), "engine") if len(names) > 1 else ""
    if len(alike) > len(names) == 1:
        engine = f"{first.case.engine} ({len(alike)} settings)"
    cells = _cells(first.artifact, first.measurement)
    return TableRow(first.label(batch=batch, engine=engine), cells, details="; ".join(told_of(first.artifact)[1:]))


def _components(report: CaseReport, *, every: bool) -> Iterator[_Component]:
    measurement = report.measurement
    assert measurement is not None
    changed = any(verdict.metric in _METRICS and verdict.outcome not in _FINE for verdict in report.verdicts)
    for name, artifact in measurement.artifacts.items():
        if every or changed or any(step.now for step in artifact.steps):
            yield _Component(report.case, name, artifact, measurement)


def _cells(artifact: Artifact, measurement: Measurement) -> tuple[str, ...]:
    now = {step.now for step in artifact.steps}
    made = {(): "-", (False,): "cached", (True,): "now", (False, True): "partly"}[tuple(sorted(now))]
    compiled = artifact.compiled_bytes
    starts = [sample.load_s + sample.first_run_s for sample in measurement.samples] if compiled is not None else []
    return (
        disk_size(artifact.model_bytes),
        "-" if compiled is None else disk_size(compiled),
        seconds(sum(step.seconds for step in artifact.steps)),
        made,
        seconds(statistics.median(starts)) if starts else "-",
    )


def told_of(artifact: Artifact) -> list[str]:
    """Return the size of an artifact, and each step with its time; of one from the cache when and where it was made."""
    compiled = f", compiled {disk_size(artifact.compiled_bytes)}" if artifact.compiled_bytes is not None else ""
    return [f"model files {disk_size(artifact.model_bytes)}{compiled}", *map(_step, artifact.steps)]


def _step(step: BuildStep) -> str:
    told = f"{step.name} {seconds(step.seconds)}"
    if step.now:
        return told
    where = [text for text in (step.date, step.host, step.commit and f"commit {step.commit}") if text]
    return f"{told} (cached, made {', '.join(where) or 'nobody knows when'})"
