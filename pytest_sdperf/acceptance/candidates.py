"""Candidates: results that nobody has accepted yet, kept on this machine in the format of a baseline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from pytest_sdperf.baselines.files import rounded, update
from pytest_sdperf.baselines.stored import SESSIONS_KEPT, Baseline, Machine, Session, StoredCase, file_of
from pytest_sdperf.machine.health import differing_keys
from pytest_sdperf.values import Case


def candidates_file(state_dir: Path, slug: str) -> Path:
    """Return the file of a device's candidates."""
    return file_of(state_dir / "candidates", slug)


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
    return next((one for one in kept if rounded(msgspec.to_builtins(one.samples)) == new), None)


def keep_newest(stored: StoredCase, count: int) -> StoredCase:
    """Return a stored case with its newest sessions alone; the anchor stays."""
    return msgspec.structs.replace(stored, sessions=stored.sessions[-count:])


def keep(state_dir: Path, slug: str, *, machine: Machine, sessions: Iterable[tuple[Case, Session]]) -> None:
    """Add results to the candidates of a device. Those of another machine state (a driver, a power limit) are dropped.

    Raises:
        BaselineError: The file is damaged or cannot be written.
    """
    added = tuple(sessions)

    def change(present: Baseline | None) -> Baseline:
        if present is None or differing_keys(present.machine, machine):
            present = Baseline(machine=dict(machine))
        cases = dict(present.cases)
        for case, session in added:
            cases[case.key] = with_session(cases.get(case.key), case, session)
        return Baseline(machine=present.machine, cases=cases)

    if added:
        update(candidates_file(state_dir, slug), change, lock_dir=state_dir / "locks")


def drop(state_dir: Path, slug: str, *, keys: Iterable[str]) -> None:
    """Forget candidates that have been accepted.

    Raises:
        BaselineError: The file is damaged or cannot be written.
    """
    gone = frozenset(keys)
    path = candidates_file(state_dir, slug)

    def change(present: Baseline | None) -> Baseline:
        cases: Mapping[str, StoredCase] = present.cases if present is not None else {}
        machine = present.machine if present is not None else {}
        return Baseline(machine=machine, cases={key: case for key, case in cases.items() if key not in gone})

    if gone and path.exists():
        update(path, change, lock_dir=state_dir / "locks")
