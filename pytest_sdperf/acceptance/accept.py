"""Accepting what was measured: the only way in which a result becomes a baseline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from pytest_sdperf.acceptance import candidates
from pytest_sdperf.acceptance.refusals import refusals
from pytest_sdperf.baselines import privacy
from pytest_sdperf.baselines.files import update
from pytest_sdperf.baselines.stored import Baseline, Machine, Session, StoredCase, file_of, read
from pytest_sdperf.judging.latency import BASELINE_SHARED
from pytest_sdperf.machine.health import clocks_locked, differing_keys
from pytest_sdperf.report.case_report import CaseReport
from pytest_sdperf.report.gates import LEVELS
from pytest_sdperf.report.stored import change, told
from pytest_sdperf.values import Case, Failure, Measurement, Sample
from pytest_sdperf.values.outcomes import Outcome, Verdict

CHANGING = frozenset({Outcome.IMPROVED, Outcome.REGRESSED})


@dataclass(frozen=True)
class Acceptance:
    """What became of results that were to be accepted.

    Attributes:
        lines: The diff, one line per case, for the terminal.
        accepted: Keys that are in the baseline now.
        refused: Key -> why not.
    """

    lines: tuple[str, ...]
    accepted: tuple[str, ...]
    refused: Mapping[str, str]


@dataclass(frozen=True)
class Origin:
    """Where and when results were measured.

    Attributes:
        slug: Device slug, the file name of its baselines.
        machine: Machine keys.
        date: UTC, to the minute (`clock.today_utc()`).
        commit: Commit of the project under test; empty if unknown.
    """

    slug: str
    machine: Machine
    date: str
    commit: str = ""


def session_of(
    measurement: Measurement,
    origin: Origin,
    *,
    verdicts: Sequence[Verdict] = (),
    reason: str = "",
    stored: StoredCase | None = None,
) -> Session:
    """Turn a measurement into a session, with home folders and other private text taken out."""
    who = privacy.identity()
    changed = {verdict.metric for verdict in verdicts if _begins_level(verdict)} & set(LEVELS)
    if stored is not None and stored.last.out_of_memory != measurement.out_of_memory:
        changed = set(LEVELS)
    samples = msgspec.convert(privacy.redact(msgspec.to_builtins(measurement.samples), who), tuple[Sample, ...])
    return Session(
        date=measurement.taken_over or origin.date,
        commit=origin.commit,
        subject=privacy.redact(dict(measurement.subject), who),
        samples=() if measurement.out_of_memory else samples,
        failure="oom" if measurement.out_of_memory else "",
        graph_hashes=dict(measurement.graph_hashes),
        counts={name: dict(counts) for name, counts in measurement.counts.items()},
        artifacts=dict(measurement.artifacts),
        changed=tuple(sorted(changed)),
        reason=reason if any(verdict.outcome is Outcome.REGRESSED for verdict in verdicts) else "",
        calibration=measurement.calibration,
        clocks_locked=clocks_locked(measurement.readings),
    )


def _begins_level(verdict: Verdict) -> bool:
    """Whether older sessions no longer say what is normal: it has changed, or others disturbed them."""
    return verdict.outcome in CHANGING or verdict.code == BASELINE_SHARED


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
        readings={} if session.clocks_locked is None else {"during": {"clocks_locked": session.clocks_locked}},
    )


def keep_candidates(reports: Iterable[CaseReport], *, origin: Origin, state_dir: Path) -> tuple[str, ...]:
    """Keep results that have no baseline, or differ from it, until somebody accepts them; return their keys.

    Raises:
        BaselineError: The file of candidates is damaged or cannot be written.
    """
    reports = tuple(reports)
    refused = refusals(reports, reason="not asked for yet")
    kept = {
        report.case.key: (report.case, session_of(report.measurement, origin, verdicts=report.verdicts))
        for report in reports
        if report.measurement is not None and report.case.key not in refused and report.outcome is not Outcome.HELD
    }
    candidates.keep(state_dir, origin.slug, machine=origin.machine, sessions=kept.values())
    return tuple(kept)


def accept(
    reports: Iterable[CaseReport],
    *,
    origin: Origin,
    folder: Path,
    state_dir: Path,
    reason: str = "",
    reason_option: str = "--sdperf-reason",
    re_anchor: bool = False,
) -> Acceptance:
    """Write measured cases into the baseline of their device; one write, all or nothing.

    Args:
        reports: Of one run; cases without a measurement only count as gates.
        origin: Where and when.
        folder: Folder of the baseline files.
        state_dir: Folder of candidates and locks.
        reason: Why a regression is accepted; it is stored.
        reason_option: What gives the reason, where these are accepted.
        re_anchor: Replace anchors too.

    Raises:
        BaselineError: The file is damaged or cannot be written; it is unchanged.
        PrivacyError: A value to be stored names a person, a machine or a device.
    """
    reports = tuple(reports)
    refused = refusals(reports, reason=reason, option=reason_option)
    taken = {r.case.key: r for r in reports if r.measurement is not None and r.case.key not in refused}
    path, lines = file_of(folder, origin.slug), [f"! {key}: refused, {why}" for key, why in sorted(refused.items())]

    def added(present: Baseline | None) -> Baseline:
        cases = dict(present.cases) if present is not None else {}
        for key, report in sorted(taken.items()):
            before, measurement = cases.get(key), report.measurement
            assert measurement is not None
            session = session_of(measurement, origin, verdicts=report.verdicts, reason=reason, stored=before)
            there = candidates.held(before, session)
            stored = candidates.with_session(before, report.case, session)
            cases[key] = msgspec.structs.replace(stored, anchor=there or session) if re_anchor else stored
            lines.append(
                f"= {key}: these samples are stored already" if there else _diff_line(key, before, stored.last)
            )
        return Baseline(machine=present.machine if present and present.cases else dict(origin.machine), cases=cases)

    elsewhere = _other_machine(path, origin)
    if elsewhere:
        refused = {**dict.fromkeys(taken, elsewhere), **refused}
        return Acceptance((*lines, *(f"! {key}: refused, {elsewhere}" for key in sorted(taken))), (), refused)
    if taken:
        update(path, added, lock_dir=state_dir / "locks")
        candidates.drop(state_dir, origin.slug, keys=taken)
        shown = privacy.redact(str(path), privacy.identity())
        lines.append(f"written to {shown}; review it as a diff before you commit it")
    return Acceptance(tuple(lines), tuple(sorted(taken)), refused)


def _other_machine(path: Path, origin: Origin) -> str:
    present = read(path)
    if present is None or not present.cases:
        return ""
    names = list(differing_keys(present.machine, origin.machine))
    if not names:
        return ""
    return (
        f"{path.name} was recorded with another {', '.join(names)}: one file holds one machine. Move it away and "
        f"record every case anew"
    )


def _diff_line(key: str, before: StoredCase | None, session: Session) -> str:
    if before is None:
        return f"+ {key}: {told(session)}"
    return f"~ {key}: {told(before.last)} -> {told(session)}{change(before.last, session)}"
