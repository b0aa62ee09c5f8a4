"""What a run was to do and how it ended, beside what its tests found out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_sdperf.core.values import Case

NARROWED = "this run was narrowed to some tests"


@dataclass(frozen=True)
class RunSummary:
    """What one run selected and how it ended. With it, results can be judged again somewhere else and no less strictly.

    Attributes:
        status: pytest's own exit status, before verdicts have their say: 0 and 1 mean that nothing ended it early.
        stopped: Whether `-x` or `--maxfail` ended it before its last test.
        failures: Tests that failed for another reason than a verdict, errors at collection included.
        expected_failures: Node ids of tests that were expected to fail: their verdicts fail nothing.
        selected: Number of tests with `bench` that were selected to run.
        measured: Whether any test came to measure.
        collected: Cases of tests with `bench`, before anything was deselected.
        asked: Field of a case -> values that the options name.
        skipped: Case key -> why its test was skipped before it measured anything.
        narrowed: Why `collected` may be less than what the options collect; empty where it is everything.
    """

    status: int = 0
    stopped: bool = False
    failures: int = 0
    expected_failures: tuple[str, ...] = ()
    selected: int = 0
    measured: bool = False
    collected: tuple[Case, ...] = ()
    asked: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)
    narrowed: str = ""

    @property
    def ended(self) -> bool:
        """Whether pytest ran every selected test."""
        return self.status in (0, 1) and not self.stopped
