"""Candidates: what a project measured and nobody has accepted yet, kept on this machine in the format of a baseline."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from pytest_sdperf.acceptance.refusals import AcceptOptions, refusals
from pytest_sdperf.acceptance.sessions import Provenance, session_of
from pytest_sdperf.baselines import privacy
from pytest_sdperf.baselines.files import rounded, update
from pytest_sdperf.baselines.stored import SESSIONS_KEPT, Baseline, Machine, Session, StoredCase, file_of, read
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.checks.reporting.gates import concerns, failed_gates
from pytest_sdperf.core.machine.health import differing_keys
from pytest_sdperf.core.values import Case


@dataclass(frozen=True)
class State:
    """What a machine keeps of one project.

    Attributes:
        folder: Of the machine, for all projects.
        project: The project's folder of baselines, into which its candidates may be accepted.
    """

    folder: Path
    project: Path

    @property
    def candidates(self) -> Path:
        """Folder of the project's candidates, in files like those of its baselines; it does not say where that is."""
        return self.folder / "candidates" / hashlib.sha256(os.fsencode(self.project.resolve())).hexdigest()[:16]

    @property
    def locks(self) -> Path:
        """Folder of locks, outside every folder that is reviewed."""
        return self.folder / "locks"

    def candidates_of(self, slug: str) -> Path:
        """Return the file of a device's candidates."""
        return file_of(self.candidates, slug)


def with_session(stored: StoredCase | None, case: Case, session: Session) -> StoredCase:
    """Return a stored case with one more session; the anchor stays, the oldest session beyond the limit goes."""
    if stored is None:
        return StoredCase(case=case, anchor=session, sessions=(session,))
    if held(stored, session):
        return stored
    return keep_newest(msgspec.structs.replace(stored, sessions=(*stored.sessions, session)), SESSIONS_KEPT)


def held(stored: StoredCase | None, session: Session) -> Session | None:
    """Return the stored session with the same samples: one that counts twice would hide how sessions differ.

    Its date does not matter: the same samples come from a run, from its results, and from a run that took them over.
    """
    new = rounded(msgspec.to_builtins(session.samples))
    kept = stored.sessions if stored is not None and new else ()
    alike = (one for one in kept if one.driver == session.driver)
    return next((one for one in alike if rounded(msgspec.to_builtins(one.samples)) == new), None)


def keep_newest(stored: StoredCase, count: int) -> StoredCase:
    """Return a stored case with its newest sessions alone; the anchor stays."""
    return msgspec.structs.replace(stored, sessions=stored.sessions[-count:])


def keep_candidates(
    reports: Iterable[CaseReport], *, origin: Provenance, state: State, accepted: Collection[str] = ()
) -> tuple[str, ...]:
    """Keep what a run measured until somebody accepts it; return the keys.

    Candidates of earlier runs are marked as such. One goes where a later run measured its case and nothing is to be
    accepted of that, and where a check fails on its build. What is INVALID for another driver alone is a candidate: it
    can be the start of a new level.

    Args:
        reports: Of one run.
        origin: Where and when.
        state: Of the project.
        accepted: Keys of what is in the baseline already.

    Raises:
        BaselineError: A file of candidates is damaged or cannot be written.
    """
    reports = tuple(reports)
    refused = refusals(reports, AcceptOptions(reason="not asked for yet"), any_driver=True)
    measured = {report.case.key: report for report in reports if report.measurement is not None}
    kept = {
        key: (report.case, _of_run(report, origin))
        for key, report in measured.items()
        if key not in refused and key not in accepted
    }
    gates = [case for case, _ in failed_gates(reports)]
    gone = measured.keys() - kept.keys()
    for path in state.candidates.glob("*.json"):
        update(path, _all_earlier, lock_dir=state.locks)
    keep(
        state,
        origin.slug,
        machine=origin.machine,
        sessions=kept.values(),
        withdrawn=lambda case: case.key in gone or any(concerns(gate, case) for gate in gates),
    )
    return tuple(kept)


def of_run(kept: Baseline, *, last: bool) -> Baseline:
    """Return the candidates of the last run, or those of earlier ones."""
    cases = {key: stored for key, stored in kept.cases.items() if (stored.last.of_last_run is True) is last}
    return Baseline(machine=kept.machine, cases=cases)


def withdraw(reports: Iterable[CaseReport], *, state: State) -> None:
    """Drop the candidates of every device whose build a check failed on, in a run that measured nothing.

    Raises:
        BaselineError: A file of candidates is damaged or cannot be written.
    """
    gates = [case for case, _ in failed_gates(reports)]
    for path in sorted(state.candidates.glob("*.json")) if gates else ():
        present = read(path)
        cases = present.cases if present is not None else {}
        concerned = [key for key, one in cases.items() if any(concerns(gate, one.case) for gate in gates)]
        drop(state, path.stem, keys=concerned)


def _of_run(report: CaseReport, origin: Provenance) -> Session:
    """Return a measurement as a session that knows its run: its command, and how strictly it judged."""
    assert report.measurement is not None
    session = session_of(report.measurement, origin, verdicts=report.verdicts)
    policy = msgspec.UNSET if report.policy is None else msgspec.to_builtins(report.policy)
    told = privacy.redact(origin.command, privacy.identity())
    return msgspec.structs.replace(session, policy=policy, command=told, of_last_run=True)


def _all_earlier(present: Baseline | None) -> Baseline:
    """Return candidates of which none is of the last run any more."""
    assert present is not None
    cases = {
        key: msgspec.structs.replace(stored, sessions=tuple(map(_earlier, stored.sessions)))
        for key, stored in present.cases.items()
    }
    return Baseline(machine=present.machine, cases=cases)


def _earlier(session: Session) -> Session:
    return msgspec.structs.replace(session, of_last_run=msgspec.UNSET)


def keep(
    state: State,
    slug: str,
    *,
    machine: Machine,
    sessions: Iterable[tuple[Case, Session]],
    withdrawn: Callable[[Case], bool],
) -> None:
    """Add results to the candidates of a device. Those of another machine state (a driver, a power limit) are dropped.

    Args:
        state: Of the project.
        slug: Of the device.
        machine: Keys of its machine.
        sessions: What is added.
        withdrawn: Whether older candidates of a case are dropped.

    Raises:
        BaselineError: The file is damaged or cannot be written.
    """
    added, path = tuple(sessions), state.candidates_of(slug)

    def change(present: Baseline | None) -> Baseline:
        if present is None or differing_keys(present.machine, machine):
            if present is not None and not added:
                return present
            present = Baseline(machine=dict(machine))
        cases = {key: stored for key, stored in present.cases.items() if not withdrawn(stored.case)}
        for case, session in added:
            cases[case.key] = _newest_last(with_session(cases.get(case.key), case, session), session)
        return Baseline(machine=present.machine, cases=cases)

    if added or path.exists():
        update(path, change, lock_dir=state.locks)


def _newest_last(stored: StoredCase, session: Session) -> StoredCase:
    """Return a candidate whose newest session is this one, also if its samples were kept before."""
    there = held(stored, session)
    earlier = tuple(one for one in stored.sessions if one is not there)
    return msgspec.structs.replace(stored, sessions=(*earlier, session)) if there is not None else stored


def drop(state: State, slug: str, *, keys: Iterable[str]) -> None:
    """Forget candidates: they have been accepted, or never shall be.

    Raises:
        BaselineError: The file is damaged or cannot be written.
    """
    gone = frozenset(keys)
    path = state.candidates_of(slug)

    def change(present: Baseline | None) -> Baseline:
        cases: Mapping[str, StoredCase] = present.cases if present is not None else {}
        machine = present.machine if present is not None else {}
        return Baseline(machine=machine, cases={key: case for key, case in cases.items() if key not in gone})

    if gone and path.exists():
        update(path, change, lock_dir=state.locks)
