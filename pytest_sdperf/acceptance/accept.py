"""Accepting what was measured: the only way in which a result becomes a baseline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from pytest_sdperf.acceptance import candidates
from pytest_sdperf.acceptance.candidates import State
from pytest_sdperf.acceptance.refusals import AcceptOptions, refusals
from pytest_sdperf.acceptance.sessions import Provenance, driver_of, moved, session_of, under
from pytest_sdperf.baselines.files import update
from pytest_sdperf.baselines.sources import BaselineFiles
from pytest_sdperf.baselines.stored import DRIVER, Baseline, Machine, Session, StoredCase, read
from pytest_sdperf.checks.pipelines.tables.stored import change, told
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.checks.reporting.doubts import doubt
from pytest_sdperf.checks.reporting.gates import LEVELS
from pytest_sdperf.core.git import is_tracked
from pytest_sdperf.core.machine.health import differing_keys
from pytest_sdperf.core.values import Case
from pytest_sdperf.core.values.outcomes import Outcome


@dataclass(frozen=True)
class Acceptance:
    """What became of results that were to be accepted.

    Attributes:
        lines: The diff, one line per case, for the terminal.
        accepted: Keys that are in the baseline now.
        refused: Key -> why not.
        left: Cases that nobody meant.
    """

    lines: tuple[str, ...]
    accepted: tuple[str, ...]
    refused: Mapping[str, str]
    left: int = 0


def accept(
    reports: Iterable[CaseReport],
    *,
    origin: Provenance,
    sources: BaselineFiles,
    state: State,
    terms: AcceptOptions = AcceptOptions(),  # noqa: B008 - it is frozen
) -> Acceptance:
    """Write measured cases into the project's own baseline of their device; one write, all or nothing.

    A case that another file judges begins there with what is stored in that one.

    Args:
        reports: Of one run; cases without a measurement only count as gates.
        origin: Where and when.
        sources: What judges the device; the project's own file is written.
        state: Of the project: candidates and locks.
        terms: How they may be accepted.

    Raises:
        BaselineError: The file is damaged or cannot be written; it is unchanged.
        PrivacyError: A value to be stored names a person, a machine or a device.
    """
    reports = tuple(reports)
    present = read(sources.own)
    measured = {report.case.key: report for report in reports if report.measurement is not None}
    meant = {
        key: report
        for key, report in sorted(measured.items())
        if terms.mean(report.case) and not (terms.new_only and sources.source_of(report.case))
    }
    gated = refusals(reports, terms, command=origin.command)
    refused = {
        key: why
        for key, report in meant.items()
        if (why := gated.get(key, "") or _other_machine(report.case, present, sources, origin, terms))
    }
    taken = {key: report for key, report in meant.items() if key not in refused}
    lines = [f"! {key}: refused, {why}" for key, why in refused.items()]

    def added(present: Baseline | None) -> Baseline:
        machine = present.machine if present and present.cases else dict(origin.machine)
        cases = dict(present.cases) if present is not None else {}
        for key, report in taken.items():
            own = cases.get(key)
            cases[key], line = _with_report(report, own, machine, sources=sources, origin=origin, terms=terms)
            lines.append(line)
        return Baseline(machine=machine, cases=cases)

    if taken:
        update(sources.own, added, lock_dir=state.locks)
        candidates.drop(state, origin.slug, keys=taken)
        # What git does not know has no diff.
        review = "; review it as a diff before you commit it" if is_tracked(sources.own) else ""
        lines.append(f"written to {sources.own}{review}")
    return Acceptance(tuple(lines), tuple(taken), refused, left=len(measured) - len(meant))


def _with_report(
    report: CaseReport,
    own: StoredCase | None,
    machine: Machine,
    *,
    sources: BaselineFiles,
    origin: Provenance,
    terms: AcceptOptions,
) -> tuple[StoredCase, str]:
    """Return a stored case with what was measured of it, and the line that says so.

    Args:
        report: What was measured.
        own: What the project's own file holds of it.
        machine: Keys of that file.
        sources: What judges the device.
        origin: Where and when it was measured.
        terms: How it may be accepted.
    """
    assert report.measurement is not None
    before, source = own, sources.source_of(report.case)
    if before is None and source is not None:
        before = moved(source.baseline.cases[report.case.key], source.baseline.machine, machine)
    driver = origin.machine.get(DRIVER)
    other_driver = before is not None and driver_of(before.last, machine) != driver
    session = session_of(
        report.measurement,
        origin,
        verdicts=report.verdicts,
        reason=terms.reason,
        stored=before,
        other_driver=other_driver,
        starts_anew=terms.starts_anew,
        doubted=bool(doubt(report)),
    )
    session = under(session, driver, machine)
    there = candidates.held(before, session)
    stored = candidates.with_session(before, report.case, session)
    if terms.re_anchor:
        stored = msgspec.structs.replace(stored, anchor=there or session)
    if there is not None and own is not None:
        if terms.starts_anew and set(session.changed) - set(there.changed):
            begun = _begun(stored, there, session)
            return begun, f"~ {report.case.key}: these samples are stored already{_level(session)}"
        return stored, f"= {report.case.key}: these samples are stored already"
    level = f", a new level under driver {driver}" if other_driver else _level(session) if before is not None else ""
    return stored, _diff_line(report.case.key, before, stored.last) + level


def _begun(stored: StoredCase, there: Session, session: Session) -> StoredCase:
    """Return a stored case in which a session that it holds begins the levels that the same samples begin now."""
    changed = tuple(sorted({*there.changed, *session.changed}))
    begun = msgspec.structs.replace(there, changed=changed, reason=session.reason)
    sessions = tuple(begun if one is there else one for one in stored.sessions)
    return msgspec.structs.replace(stored, sessions=sessions, anchor=begun)


def _level(session: Session) -> str:
    """Say which metrics a session begins a level of; empty where it begins none."""
    of = "" if set(session.changed) == {*LEVELS, *session.metrics} else f" of {', '.join(session.changed)}"
    return f", a new level{of}" if session.changed else ""


def _other_machine(
    case: Case, present: Baseline | None, sources: BaselineFiles, origin: Provenance, terms: AcceptOptions
) -> str:
    """Return why a case must not be added to the file of a machine, or to its sessions; empty where it may."""
    machine = present.machine if present is not None and present.cases else origin.machine
    names = [name for name in differing_keys(machine, origin.machine) if name != DRIVER]
    if names:
        return (
            f"{sources.own.name} was recorded with another {', '.join(names)}: one file holds one machine. Move it "
            f"away and record every case anew, or keep this machine in a folder of its own"
        )
    _, differences = sources.stored(case, origin.machine)
    if DRIVER not in differences or terms.starts_anew:
        return ""
    old, new = differences[DRIVER]
    return (
        f"it was recorded under driver {old}, and this is {new}. To start anew under this one, type: "
        f'sdperf baselines accept --re-anchor --reason="new driver"'
    )


def _diff_line(key: str, before: StoredCase | None, session: Session) -> str:
    measured = f", measured {session.date}"
    if before is None:
        return f"+ {key}: {told(session)}{measured}"
    return f"~ {key}: {told(before.last)} -> {told(session)}{change(before.last, session)}{measured}"


def counts_to_keep(reports: Iterable[CaseReport], *, reason: str) -> Mapping[str, dict[str, Mapping[str, int]]]:
    """Return file below the folder of baselines -> key -> counts; worse ones than known only with a reason."""
    found: dict[str, dict[str, Mapping[str, int]]] = {}
    for report in reports:
        for counted in (check.counted for check in report.checks.values()):
            if counted is not None and counted.counts and _acceptable(report, reason=reason):
                found.setdefault(counted.file, {})[counted.key] = counted.counts
    return found


def _acceptable(report: CaseReport, *, reason: str) -> bool:
    outcome = report.outcome
    return outcome is not Outcome.FAILED and (bool(reason) or outcome is not Outcome.REGRESSED)
