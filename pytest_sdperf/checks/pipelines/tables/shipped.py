"""Rows of the baselines that come with the project, to stand beside measurements; they are shown, whoever measures."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from pytest_sdperf.baselines.published import OOM, Cell, Document, PublishedMatch, PublishedRow, Table
from pytest_sdperf.baselines.stored import Baseline, Machine, Session, StoredCase, machine_of
from pytest_sdperf.checks.pipelines.tables.stored import latency_s
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.core.labels import engine_label
from pytest_sdperf.core.machine.gpu_facts import load_gpus
from pytest_sdperf.core.units import MEGABYTE, plural
from pytest_sdperf.core.values import Case

# What says that two cases do the same work; engine and optimization are what a reader compares.
_SAME_WORK = ("model", "component", "batch_size", "height", "width", "steps", "scheduler")
_SOURCE = Document(title="measured by pytest_sdperf", file="", protocol="")


def shipped_beside(
    shipped: Iterable[Baseline], reports: Sequence[CaseReport], *, family: str
) -> tuple[PublishedMatch, ...]:
    """Return the stored cases that do the same work as a measured one, on a card of the same family.

    Args:
        shipped: Baselines that come with the project.
        reports: Of one model.
        family: GPU family that was measured on; empty on a CPU, which matches nothing.
    """
    measured = {_work(report.case) for report in reports if report.measurement is not None}
    beside = [
        (stored, machine_of(baseline, stored.last))
        for baseline in shipped
        if family and _family(baseline.machine) == family
        for stored in sorted(baseline.cases.values(), key=_slowest_first)
        if _work(stored.case) in measured
    ]
    # Rows of one work, driver and versions have one source, with all their days.
    sources: dict[str, list[tuple[Session, ...]]] = {}
    for stored, machine in beside:
        sources.setdefault(_source(stored, machine), []).append(_level(stored))
    return tuple(
        _match(stored, machine, name=f"{source}{_sessions(sources[source])}")
        for stored, machine in beside
        for source in [_source(stored, machine)]
    )


def _slowest_first(stored: StoredCase) -> tuple[int, bool, float]:
    """Sort as a ladder does, without knowing it; the smallest batch decides, for a row holds every batch."""
    return stored.case.batch_size, not stored.last.out_of_memory, -_latency_s(_level(stored))


def _level(stored: StoredCase) -> tuple[Session, ...]:
    """Return the sessions that a row stands for: those of the level that runs are judged by, as the last one ran."""
    last = stored.last
    ran = (last.subject, last.driver)
    level = [one for one in stored.level("latency") if one.samples and (one.subject, one.driver) == ran]
    return tuple(level) if level and not last.out_of_memory else (last,)


def _latency_s(level: Sequence[Session]) -> float:
    return statistics.median(map(latency_s, level))


def _work(case: Case) -> tuple[object, ...]:
    return tuple(getattr(case, name) for name in _SAME_WORK)


def _family(machine: Machine) -> str:
    facts = load_gpus().facts(str(machine.get("slug", "")))
    return facts.family if facts is not None else ""


def _match(stored: StoredCase, machine: Machine, *, name: str) -> PublishedMatch:
    case, slug = stored.case, str(machine.get("slug", ""))
    table = Table(
        name=name,
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
    row = PublishedRow(
        label=case.key,
        engine=engine_label(case.engine, case.engine_options),
        version=stored.last.subject.get("onnxruntime", ""),
        provider="",
        optimization=case.optimization,
        cells=(_cell(case.batch_size, _level(stored)),),
    )
    return PublishedMatch(_SOURCE, table, row, kind=f"shipped with pytest_sdperf, {_what(case)}")


def _what(case: Case) -> str:
    steps = f", {case.steps} steps {case.scheduler}".rstrip() if case.steps else ""
    return f"{case.component} {case.height}x{case.width}{steps}"


def _source(stored: StoredCase, machine: Machine) -> str:
    """Return under what it was measured: work, device, driver, versions."""
    driver = f", driver {machine['driver']}" if machine.get("driver") else ""
    versions = "".join(f", {name} {version}" for name, version in sorted(stored.last.subject.items()))
    return f"{_what(stored.case)} on {machine.get('slug', '')}{driver}{versions}"


def _sessions(levels: Sequence[Sequence[Session]]) -> str:
    """Return when rows were measured, and of how many sessions each is the median."""
    days = sorted(session.date[:10] for level in levels for session in level)
    when = days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}"
    few, many = min(map(len, levels)), max(map(len, levels))
    if many == 1:
        return f", {when}, one session each"
    return f", {when}, each the median of {plural(many, 'session') if few == many else f'{few} to {many} sessions'}"


def _cell(batch_size: int, level: Sequence[Session]) -> Cell:
    """Return the medians of the sessions of a level, as a run is judged by them."""
    if level[-1].out_of_memory:
        return Cell(batch_size=batch_size, values={}, flags=(OOM,))
    values = {"latency_s": _latency_s(level)}
    for name in ("first_run", "second_run"):
        every = [[getattr(sample, f"{name}_bytes") for sample in session.samples] for session in level]
        least = [min(known) for peaks in every if (known := [peak for peak in peaks if peak])]
        if least:
            values[f"{name}_memory_mb"] = statistics.median(least) / MEGABYTE
    return Cell(batch_size=batch_size, values=values, flags=())
