"""Baseline files in words: what is in one, what is stored about a case, and how two differ."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping

import msgspec

from pytest_sdperf.baselines.stored import Baseline, Machine, Session, StoredCase
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.pipelines.judging.memory import beyond_least
from pytest_sdperf.checks.pipelines.tables.artifacts import told_of
from pytest_sdperf.core.units import MEGABYTE, megabytes, percent, plural, seconds

_WITHOUT_WORTH = (None, "", "default", "none")


def list_lines(name: str, baseline: Baseline, *, cases: bool = True) -> Iterator[str]:
    """Yield what a file holds, and a line per case.

    Args:
        name: Of the file, as it is to be shown.
        baseline: Its content.
        cases: Whether to list them.
    """
    sessions = [session for stored in baseline.cases.values() for session in stored.sessions]
    dates = sorted(session.date[:10] for session in sessions)
    since = f", {dates[0]} to {dates[-1]}" if dates else ""
    yield f"{name}: {plural(len(baseline.cases), 'case')}, {plural(len(sessions), 'session')}{since}"
    yield f"  machine: {_machine(baseline.machine)}"
    if not cases:
        return
    for key, stored in sorted(baseline.cases.items()):
        count = plural(len(stored.sessions), "session")
        yield f"  {key}: {told(stored.last)}, {count}, last of {stored.last.date[:10]}{_driver(stored.last)}"


def show_lines(stored: StoredCase, about: str = "") -> Iterator[str]:
    """Yield everything that is stored about a case: the raw samples and versions of every session.

    Args:
        stored: The case.
        about: What is to be known of its file, if anything is.
    """
    yield stored.case.key
    if about:
        yield f"  {about}"
    if stored.anchor.date != stored.sessions[0].date:
        yield f"  anchor of {stored.anchor.date}: {told(stored.anchor)}"
    for session in stored.sessions:
        commit = f", commit {session.commit}" if session.commit else ""
        changed = f", new level of {', '.join(session.changed)}" if session.changed else ""
        why = f", because {session.reason}" if session.reason else ""
        yield f"  session of {session.date}{commit}: {told(session)}{changed}{_driver(session)}{why}"
        yield f"    versions: {', '.join(f'{name} {text}' for name, text in sorted(session.subject.items())) or 'none'}"
        for name, artifact in sorted(session.artifacts.items()):
            yield f"    {name}: {'; '.join(told_of(artifact))}"
        for number, sample in enumerate(session.samples, 1):
            times = ", ".join(seconds(time) for time in sample.iterations_s)
            peaks = [megabytes(peak) for peak in (sample.first_run_bytes, sample.second_run_bytes) if peak is not None]
            memory = f"; {sample.memory_source} memory {' and '.join(peaks)}" if peaks else ""
            yield f"    process {number}: {times}{memory}"


def diff_lines(before: Mapping[str, Session], after: Mapping[str, Session]) -> Iterator[str]:
    """Yield how two sets of sessions differ, a line per case with the ratio of their latencies.

    Args:
        before: Case key -> session.
        after: The same, later.
    """
    for key in sorted({*before, *after}):
        old, new = before.get(key), after.get(key)
        if old is None and new is not None:
            yield f"+ {key}: {told(new)}"
        elif new is None and old is not None:
            yield f"- {key}: {told(old)}"
        elif old is not None and new is not None:
            yield f"{'=' if old == new else '~'} {key}: {told(old)} -> {told(new)}{change(old, new)}"
    counts = (len(after.keys() - before.keys()), len(before.keys() - after.keys()), len(before.keys() & after.keys()))
    yield f"{plural(counts[2], 'case')} in both, {counts[1]} only in the first, {counts[0]} only in the second"


def change(old: Session, new: Session) -> str:
    """Return the ratio of two latencies as a change, in brackets; empty where one has none."""
    ends = latency_s(old), latency_s(new)
    return f" ({percent(ends[1] / ends[0])})" if all(ends) else ""


def latency_s(session: Session) -> float:
    """Return the median of the process medians; 0 without samples."""
    return statistics.median(sample.median_s for sample in session.samples) if session.samples else 0.0


def told(session: Session) -> str:
    """Return a session in a few words: latency and memory, `OOM`, or the nodes of its graphs."""
    if session.out_of_memory:
        return "OOM"
    if not session.samples:
        return f"{sum(sum(counts.values()) for counts in session.counts.values()):,} nodes"
    peaks = [sample.second_run_bytes for sample in session.samples if sample.second_run_bytes]
    if not peaks:
        return seconds(latency_s(session))
    more = beyond_least(peaks, session.samples[0].memory_source, policy=Policy())
    others = f" (up to {max(peaks) / MEGABYTE:,.0f} in {len(more)} of {len(peaks)} processes)" if more else ""
    return f"{seconds(latency_s(session))}, {megabytes(min(peaks))}{others}"


def _driver(session: Session) -> str:
    """Return under which driver it was measured, where that is not the one of its file."""
    return "" if session.driver is msgspec.UNSET else f", under driver {session.driver}"


def _machine(machine: Machine) -> str:
    told_keys = (f"{name} {value}" for name, value in sorted(machine.items()) if value not in _WITHOUT_WORTH)
    return ", ".join(told_keys) or "not known"
