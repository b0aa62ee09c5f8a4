"""Rows of the baselines that come with the project, to stand beside measurements; they are shown, whoever measures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pytest_sdperf.baselines.published import OOM, Cell, Document, Match, Row, Table
from pytest_sdperf.baselines.stored import Baseline, Machine, Session, StoredCase, machine_of
from pytest_sdperf.labels import engine_label
from pytest_sdperf.machine.gpu_facts import load_gpus
from pytest_sdperf.report.case_report import CaseReport
from pytest_sdperf.report.stored import latency_s
from pytest_sdperf.units import MEGABYTE
from pytest_sdperf.values import Case

# What says that two cases do the same work; engine and optimization are what a reader compares.
_SAME_WORK = ("model", "component", "batch_size", "height", "width", "steps", "scheduler")
_SOURCE = Document(title="measured by pytest_sdperf", file="", protocol="")


def shipped_beside(shipped: Iterable[Baseline], reports: Sequence[CaseReport], *, family: str) -> tuple[Match, ...]:
    """Return the stored cases that do the same work as a measured one, on a card of the same family.

    Args:
        shipped: Baselines that come with the project.
        reports: Of one model.
        family: GPU family that was measured on; empty on a CPU, which matches nothing.
    """
    measured = {_work(report.case) for report in reports if report.measurement is not None}
    return tuple(
        _match(stored, machine_of(baseline, stored.last))
        for baseline in shipped
        if family and _family(baseline.machine) == family
        for stored in sorted(baseline.cases.values(), key=_slowest_first)
        if _work(stored.case) in measured
    )


def _slowest_first(stored: StoredCase) -> tuple[int, bool, float]:
    """Sort as a ladder does, without knowing its rungs; the smallest batch decides, for a row holds every batch."""
    return stored.case.batch_size, not stored.last.out_of_memory, -latency_s(stored.last)


def _work(case: Case) -> tuple[object, ...]:
    return tuple(getattr(case, name) for name in _SAME_WORK)


def _family(machine: Machine) -> str:
    facts = load_gpus().facts(str(machine.get("slug", "")))
    return facts.family if facts is not None else ""


def _match(stored: StoredCase, machine: Machine) -> Match:
    case, session, slug = stored.case, stored.last, str(machine.get("slug", ""))
    steps = f", {case.steps} steps {case.scheduler}".rstrip() if case.steps else ""
    work = f"{case.component} {case.height}x{case.width}{steps}"
    table = Table(
        name=f"{work} on {slug}{_labels(machine, session)}",
        family=_family(machine),
        device=slug,
        system="",
        model=case.model,
        height=case.height,
        width=case.width,
        steps=0,  # they are in the heading, for components have none
        notes=(),
        rows=(),
    )
    row = Row(
        label=case.key,
        engine=engine_label(case.engine, case.engine_options),
        version=session.subject.get("onnxruntime", ""),
        provider="",
        optimization=case.optimization,
        cells=(_cell(case.batch_size, session),),
    )
    return Match(_SOURCE, table, row, kind=f"shipped with pytest_sdperf, {work}")


def _labels(machine: Machine, session: Session) -> str:
    """Return under what it was measured: driver, versions, day."""
    driver = f", driver {machine['driver']}" if machine.get("driver") else ""
    versions = "".join(f", {name} {version}" for name, version in sorted(session.subject.items()))
    return f"{driver}{versions}, {session.date[:10]}"


def _cell(batch_size: int, session: Session) -> Cell:
    if session.out_of_memory:
        return Cell(batch_size=batch_size, values={}, flags=(OOM,))
    values = {"latency_s": latency_s(session)}
    for name in ("first_run", "second_run"):
        peaks = [peak for sample in session.samples if (peak := getattr(sample, f"{name}_bytes"))]
        if peaks:
            values[f"{name}_memory_mb"] = min(peaks) / MEGABYTE
    return Cell(batch_size=batch_size, values=values, flags=())
