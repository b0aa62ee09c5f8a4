"""What the tests of a run reported, and what was to be run: all that its end is made of."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypedDict

import pytest

from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.core.files.strict_json import convert
from pytest_sdperf.core.settings import Settings
from pytest_sdperf.core.values import Case, to_json
from pytest_sdperf.core.values.outcomes import Outcome
from pytest_sdperf.plugin.recorded import ATTRIBUTE, Recorded
from pytest_sdperf.report.judged import why_nothing
from pytest_sdperf.report.run_summary import NARROWED, RunSummary
from pytest_sdperf.report.unused import asked_axes


class _Collected(TypedDict):
    """What every worker of pytest-xdist collects, as of `Results`."""

    collected: tuple[Case, ...]
    benches: dict[str, Case]
    cases: dict[str, Case]
    asked: set[str]
    deselected: bool


JUDGED = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)


@dataclasses.dataclass
class Results:
    """What the tests of a run reported, in their order.

    Attributes:
        found: Node id -> what the test found out, for tests that used our fixtures; of a test that ran twice the last.
        failed_by_verdict: Node ids of tests that failed because of a verdict, which has an exit status of its own.
        collected: Cases that tests with `bench` collected, before any deselection.
        benches: Node id -> case of the tests with `bench` that were selected to run.
        cases: Node id -> case of every test that has one.
        asked: Node ids of the selected tests that ask for a case, also where none was left for them.
        answered: Node ids of the tests that were not skipped: they passed or failed by what they assert.
        done: Node ids of the tests that came to their end, whichever it was.
        crashed: Node id -> how its worker of pytest-xdist ended, which could say nothing any more.
        deselected: Whether something took tests away (`-k`, `-m`, `--lf`, node ids).
        skipped: Node id -> why the test was skipped.
        expected_failures: Node ids of tests that were expected to fail.
        remembers_failures: Whether pytest has a cache in which it notes which tests failed.
        written: Lines about what was written: to the baseline, or to a file that was asked for.
        ended: What was to be done and how it ended, once it has ended.
    """

    found: dict[str, CaseReport] = dataclasses.field(default_factory=dict)
    failed_by_verdict: set[str] = dataclasses.field(default_factory=set)
    collected: tuple[Case, ...] = ()
    benches: dict[str, Case] = dataclasses.field(default_factory=dict)
    cases: dict[str, Case] = dataclasses.field(default_factory=dict)
    asked: set[str] = dataclasses.field(default_factory=set)
    answered: set[str] = dataclasses.field(default_factory=set)
    done: set[str] = dataclasses.field(default_factory=set)
    crashed: dict[str, str] = dataclasses.field(default_factory=dict)
    deselected: bool = False
    skipped: dict[str, str] = dataclasses.field(default_factory=dict)
    expected_failures: set[str] = dataclasses.field(default_factory=set)
    remembers_failures: bool = True
    written: tuple[str, ...] = ()
    ended: RunSummary = dataclasses.field(default_factory=RunSummary)

    @property
    def reports(self) -> list[CaseReport]:
        """What was found out, in the order of the tests; those whose worker crashed come last."""
        silent = [name for name in self.crashed if name in self.cases and name not in self.found]
        found = {**self.found, **{name: CaseReport(name, self.cases[name]) for name in silent}}
        return [
            dataclasses.replace(report, problem=self.crashed.get(name, report.problem))
            for name, report in found.items()
        ]

    @property
    def selected(self) -> int:
        """Number of tests with `bench` that were selected to run."""
        return len(self.benches)

    @property
    def interrupted(self) -> bool:
        """Whether the run was ended from outside, so that nothing is kept or accepted."""
        return self.ended.status not in JUDGED

    @property
    def left(self) -> tuple[str, ...]:
        """Node ids of the tests with a case that an interruption kept from their end, in their order."""
        return tuple(name for name in self.cases if name not in self.done) if self.interrupted else ()

    @property
    def finished(self) -> bool:
        """Whether every selected test came to its end: neither interrupted, nor stopped, nor out of time."""
        return self.ended.ended and all(report.outcome is not Outcome.NOT_MEASURED for report in self.reports)

    @property
    def nothing_judged(self) -> str:
        """Why this run is no success although nothing failed: nothing came to a verdict. Empty where something did."""
        if not self.asked:
            return ""
        answered = bool(self.asked & self.answered)
        return why_nothing(self.reports, measuring=self.selected, asked=len(self.asked), answered=answered)

    @property
    def skip_reasons(self) -> tuple[str, ...]:
        """Why tests that ask for a case were skipped without a verdict, one per test."""
        told = {report.nodeid for report in self.reports if report.verdicts}
        return tuple(why for name, why in self.skipped.items() if name in self.asked - told)

    def add(self, report: pytest.TestReport) -> None:
        """Take over what a test recorded."""
        if report.when == "call" or not report.passed:
            self.done.add(report.nodeid)
        if report.failed or (report.when == "call" and (report.passed or hasattr(report, "wasxfail"))):
            self.answered.add(report.nodeid)
        if hasattr(report, "wasxfail"):
            self.expected_failures.add(report.nodeid)
        elif report.skipped:
            self.skipped[report.nodeid] = _skip_reason(report)
        recorded: Recorded | None = getattr(report, ATTRIBUTE, None)
        if recorded is None:
            self._add_silent(report)
            return
        found = recorded.report
        self.found[found.nodeid] = found
        if report.when == "teardown":  # the verdict came before
            return
        self.failed_by_verdict.discard(found.nodeid)
        if report.failed and recorded.by_verdict:
            self.failed_by_verdict.add(found.nodeid)

    def _add_silent(self, report: pytest.TestReport) -> None:
        """Take over that a test passed and recorded nothing, or that its worker crashed."""
        if report.failed:  # whether it has a case is known once a worker has told what it collected
            self.crashed[report.nodeid] = str(report.longrepr).strip().partition("\n")[0]
        elif report.passed and report.when == "call":  # what it recorded when it ran before counts no more
            self.found.pop(report.nodeid, None)
            self.crashed.pop(report.nodeid, None)

    def complete(self, completed: Callable[[Case], Case]) -> None:
        """Replace cases by what they turned out to be: those of the user's own pipeline are stored under that."""
        self.collected = tuple(map(completed, self.collected))
        self.benches = {name: completed(case) for name, case in self.benches.items()}
        self.cases = {name: completed(case) for name, case in self.cases.items()}

    def collection(self) -> dict[str, Any]:
        """Return as JSON data what a worker of pytest-xdist collected."""
        data: dict[str, Any] = to_json({name: getattr(self, name) for name in _Collected.__annotations__})
        return data

    def take_collection(self, data: Mapping[str, Any] | None) -> None:
        """Take over what a worker collected; None where it did not come to that."""
        if data is not None:
            collected = convert(data, _Collected)
            collected["deselected"] |= self.deselected
            for name, value in collected.items():
                setattr(self, name, value)

    def summary(self, settings: Settings, *, status: int, failed: int, stopped: bool) -> RunSummary:
        """Return what was to be done and how it ended. Arguments as of `conclude`."""
        return RunSummary(
            status=status,
            stopped=stopped,
            failures=max(failed - len(self.failed_by_verdict), 0),
            expected_failures=tuple(sorted(self.expected_failures)),
            selected=self.selected,
            measured=any(report.measured for report in self.reports),
            collected=self.collected,
            asked=asked_axes(settings.selection),
            skipped={self.benches[name].key: why for name, why in self.skipped.items() if name in self.benches},
            narrowed=NARROWED if self.deselected else "",
        )


def _skip_reason(report: pytest.TestReport) -> str:
    told = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return told.removeprefix("Skipped: ")
