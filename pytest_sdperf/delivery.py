"""A verdict is delivered at its test: what the fixtures recorded, and how it passes, skips or fails."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import pytest

from pytest_sdperf.fusing.explain import Explanation
from pytest_sdperf.judging.policy import Policy
from pytest_sdperf.judging.verdict import delivery
from pytest_sdperf.outcomes import Agreement, Outcome, Verdict
from pytest_sdperf.pairs import Pairs
from pytest_sdperf.report.case_report import CaseReport
from pytest_sdperf.values import Case, Measurement

TWICE = "this test measured twice; give each measurement a test of its own"
_REPORT = pytest.StashKey[CaseReport]()


class VerdictFailed(pytest.fail.Exception):  # type: ignore[misc, name-defined]  # an attribute of a function
    """A test failed because of what was measured: its verdict says it all, and has an exit status of its own."""


class DisagreementFailed(pytest.fail.Exception):  # type: ignore[misc, name-defined]  # the same
    """A test failed because outputs are too far from their reference."""


class Recorder:
    """Collects what one test found out, on the test's own stash."""

    def __init__(self, item: pytest.Item, case: Case) -> None:
        self._item = item
        if _REPORT not in item.stash:
            item.stash[_REPORT] = CaseReport(item.nodeid, case)

    def measurement(self, measurement: Measurement, verdicts: Sequence[Verdict]) -> None:
        """Record a measurement and what it means; a second one of the same test is refused.

        Raises:
            pytest.fail.Exception: The test has measured before: one test has one verdict.
        """
        report = self._item.stash[_REPORT]
        if report.measurement is not None:
            pytest.fail(TWICE, pytrace=False)
        self._item.stash[_REPORT] = dataclasses.replace(report, measurement=measurement)
        self.verdicts(verdicts)

    def pairs(self, pairs: Pairs, verdicts: Sequence[Verdict]) -> None:
        """Record an A/B and what it means; a second one of the same test is refused.

        Raises:
            pytest.fail.Exception: The test has measured before.
        """
        report = self._item.stash[_REPORT]
        if report.pairs is not None:
            pytest.fail(TWICE, pytrace=False)
        self._item.stash[_REPORT] = dataclasses.replace(report, pairs=pairs)
        self.verdicts(verdicts)

    def counts(self, counts: Mapping[str, int], verdict: Verdict, explanation: Explanation | None = None) -> None:
        """Record how many of the expected operators a graph has, what that means, and why some are missing."""
        report = self._item.stash[_REPORT]
        self._item.stash[_REPORT] = dataclasses.replace(report, counts=dict(counts), explanation=explanation)
        self.verdicts([verdict])

    def rungs(self, rungs: Mapping[str, Mapping[str, str]]) -> None:
        """Record which rungs of the ladder the given graphs of a case have: component -> rung -> how it stands."""
        report = self._item.stash[_REPORT]
        self._item.stash[_REPORT] = dataclasses.replace(report, rungs=rungs)

    def agreement(self, agreement: Agreement) -> None:
        """Record a comparison with a reference."""
        report = self._item.stash[_REPORT]
        self._item.stash[_REPORT] = dataclasses.replace(report, agreements=(*report.agreements, agreement))

    def verdicts(self, verdicts: Sequence[Verdict]) -> None:
        """Record what something means."""
        report = self._item.stash[_REPORT]
        self._item.stash[_REPORT] = dataclasses.replace(report, verdicts=(*report.verdicts, *verdicts))


def recorded(item: pytest.Item) -> CaseReport | None:
    """Return what the fixtures recorded for a test; None if it used none of them."""
    return item.stash.get(_REPORT, None)


def deliver(verdicts: Sequence[Verdict], policy: Policy) -> None:
    """Let the running test pass, skip or fail as its verdicts say, with their sentences and without a traceback."""
    how = delivery(verdicts, policy=policy)
    if how == "pass":
        return
    harmless = (Outcome.HELD, Outcome.IMPROVED)
    lines = [f"{v.outcome.value}: {v.text}" for v in verdicts if v.outcome not in harmless]
    text = "\n".join(lines)
    if how == "skip":
        pytest.skip(text)
    raise VerdictFailed(text, pytrace=False)
