"""Sessions: a measurement as it is stored, and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from pytest_sdperf.baselines import privacy
from pytest_sdperf.baselines.stored import DRIVER, Machine, Session, StoredCase
from pytest_sdperf.checks.pipelines.judging.latency import BASELINE_SHARED
from pytest_sdperf.checks.pipelines.judging.memory import DRAWN
from pytest_sdperf.checks.reporting.gates import LEVELS
from pytest_sdperf.core.files.strict_json import whole
from pytest_sdperf.core.machine.health import clocks_locked
from pytest_sdperf.core.values import Case, Failure, Measurement, Sample
from pytest_sdperf.core.values.outcomes import Outcome, Verdict

CHANGING = frozenset({Outcome.IMPROVED, Outcome.REGRESSED})
Driver = str | int | float | None


@dataclass(frozen=True)
class Provenance:
    """Where and when results were measured.

    Attributes:
        slug: Device slug, the file name of its baselines.
        machine: Machine keys.
        date: UTC, to the minute (`clock.today_utc()`).
        commit: Commit of the project under test; empty if unknown.
        command: What measures them again, as it is typed; empty if unknown.
    """

    slug: str
    machine: Machine
    date: str
    commit: str = ""
    command: str = ""


def session_of(
    measurement: Measurement,
    origin: Provenance,
    *,
    verdicts: Sequence[Verdict] = (),
    reason: str = "",
    stored: StoredCase | None = None,
    other_driver: bool = False,
    starts_anew: bool = False,
    doubted: bool = False,
) -> Session:
    """Turn a measurement into a session, with home folders and other private text taken out.

    Args:
        measurement: What was measured.
        origin: Where and when.
        verdicts: What it means.
        reason: Why a regression, another driver, or what could not be told is accepted.
        stored: What is stored of the case.
        other_driver: Whether older sessions say nothing about it, because they were measured under another driver.
        starts_anew: Whether it is accepted as a new anchor for a reason: a change that could not be told from noise is
            one then. Memory that may have been drawn is none: the draw would be the whole level.
        doubted: Whether it is accepted only because there is a reason.
    """
    who = privacy.identity()
    levels = {*LEVELS, *measurement.metrics}
    meant = {one.metric for one in verdicts if starts_anew and _is_undecided(one)} & levels
    changed = {one.metric for one in verdicts if _begins_level(one)} & levels | meant
    if other_driver or (stored is not None and stored.last.out_of_memory != measurement.out_of_memory):
        changed = levels
    samples = msgspec.convert(privacy.redact(msgspec.to_builtins(measurement.samples), who), tuple[Sample, ...])
    return Session(
        date=measurement.resumed or origin.date,
        commit=origin.commit,
        subject=privacy.redact(dict(measurement.subject), who),
        samples=() if measurement.out_of_memory else samples,
        failure="oom" if measurement.out_of_memory else "",
        graph_hashes=dict(measurement.graph_hashes),
        counts={name: dict(counts) for name, counts in measurement.counts.items()},
        artifacts=dict(measurement.artifacts),
        changed=tuple(sorted(changed)),
        reason=whole(reason) if other_driver or meant or doubted else "",
        calibration=measurement.calibration,
        metrics=dict(measurement.metrics),
        clocks_locked=clocks_locked(measurement.readings),
    )


def _begins_level(verdict: Verdict) -> bool:
    """Whether older sessions no longer say what is normal: it has changed, or others disturbed them."""
    return verdict.outcome in CHANGING or verdict.code == BASELINE_SHARED


def _is_undecided(verdict: Verdict) -> bool:
    return verdict.outcome is Outcome.INCONCLUSIVE and verdict.code != DRAWN


def measurement_of(session: Session, case: Case) -> Measurement:
    """Turn a session back into a measurement, to judge it again: the inverse of `session_of`."""
    return Measurement(
        case=case,
        samples=session.samples,
        failure=Failure(session.failure, "the device ran out of memory") if session.failure else None,
        subject=session.subject,
        graph_hashes=session.graph_hashes,
        counts=session.counts,
        artifacts=session.artifacts,
        calibration=session.calibration,
        metrics=session.metrics,
        readings={} if session.clocks_locked is None else {"during": {"clocks_locked": session.clocks_locked}},
    )


def moved(stored: StoredCase, old: Machine, new: Machine) -> StoredCase:
    """Return what one file holds of a case as another one holds it, whose machine may have another driver."""
    sessions = tuple(under(session, driver_of(session, old), new) for session in stored.sessions)
    anchor = under(stored.anchor, driver_of(stored.anchor, old), new)
    return msgspec.structs.replace(stored, sessions=sessions, anchor=anchor)


def under(session: Session, driver: Driver, machine: Machine) -> Session:
    """Return a session that says under which driver it was measured, where its file does not."""
    own = msgspec.UNSET if driver == machine.get(DRIVER) else driver
    return msgspec.structs.replace(session, driver=own)


def driver_of(session: Session, machine: Machine) -> Driver:
    """Return under which driver a session was measured, in a file of such a machine."""
    return machine.get(DRIVER) if session.driver is msgspec.UNSET else session.driver
