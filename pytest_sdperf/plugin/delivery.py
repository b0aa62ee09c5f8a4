"""A verdict is delivered at its test: what the fixtures recorded, and how it passes, skips or fails.

That is when the test ends: what it asserts by itself comes first, and one fixture takes nothing away from another one.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from pytest_sdperf.cases.purposes import purpose_of
from pytest_sdperf.checks.judging.fitness import ended, no_memory
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.judging.verdict import delivery
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.core.errors import (
    BuildError,
    NoReferenceError,
    OutOfMemoryError,
    SdperfError,
    UnsupportedGraphError,
    UnsupportedOptionError,
    WorkerError,
)
from pytest_sdperf.core.tolerances import Override
from pytest_sdperf.core.values import Case, Failure
from pytest_sdperf.core.values.check import CheckReport
from pytest_sdperf.core.values.outcomes import Outcome, Verdict
from pytest_sdperf.plugin.recorded import Recorded

TWICE = "this test measured twice; give each measurement a test of its own"


_REPORT = pytest.StashKey[CaseReport]()
_DUE = pytest.StashKey[list["_Due"]]()


@dataclasses.dataclass(frozen=True)
class _Due:
    """What a test has to say when it ends."""

    fails: bool
    text: str


class VerdictFailed(pytest.fail.Exception):  # type: ignore[misc, name-defined]  # an attribute of a function
    """A test failed because of what was measured: its verdict says it all, and has an exit status of its own."""


class Recorder:
    """Collects what one test found out, on the test's own stash."""

    def __init__(self, item: pytest.Item, case: Case) -> None:
        self._item = item
        if _REPORT not in item.stash:
            item.stash[_REPORT] = CaseReport(item.nodeid, case)

    def measured(self, verdicts: Sequence[Verdict], **found: Any) -> None:
        """Record what was measured and what it means; a second time in one test is refused.

        Args:
            verdicts: What it means.
            found: Fields of a `CaseReport`: the measurement and how strictly it was judged, or the pairs of an A/B.

        Raises:
            pytest.fail.Exception: The test has measured before: one test has one verdict.
        """
        if self._item.stash[_REPORT].measured:
            pytest.fail(TWICE, pytrace=False)
        self._note(**found)
        self.verdicts(verdicts)

    def _note(self, **found: Any) -> None:
        self._item.stash[_REPORT] = dataclasses.replace(self._item.stash[_REPORT], **found)

    def tolerances(self, overrides: tuple[Override, ...]) -> None:
        """Record what the case is judged by that differs from all others, before it is measured."""
        self._note(overrides=overrides)

    def optimizations(self, optimizations: Mapping[str, Mapping[str, str]]) -> None:
        """Record component -> optimization -> how it stands in the external graph of the case."""
        self._note(optimizations=optimizations)

    def other_side(self, other: Case) -> None:
        """Record what side B of an A/B is, which a check looks at."""
        self._note(other=other)

    def check(self, name: str, report: CheckReport, verdicts: Sequence[Verdict], *, fixture: str) -> None:
        """Record what a registered check found out, and what that means; a second time in one test is refused.

        Raises:
            pytest.fail.Exception: The test has asked the check before.
        """
        checks = self._item.stash[_REPORT].checks
        if name in checks:
            told = f"this test called {fixture} twice; give each call a test of its own"
            pytest.fail(told, pytrace=False)
        self._note(checks={**checks, name: report})
        self.verdicts(verdicts)

    def verdicts(self, verdicts: Sequence[Verdict]) -> None:
        """Record what something means."""
        self._note(verdicts=(*self._item.stash[_REPORT].verdicts, *verdicts))

    def deliver(self, verdicts: Sequence[Verdict], policy: Policy) -> None:
        """Let the test skip or fail when it ends, if its verdicts say so, with their sentences."""
        how = delivery(verdicts, policy=policy)
        if how != "pass":
            self._due(_text(verdicts), fails=how == "fail")

    def ended(self, verdict: Verdict, text: str) -> None:
        """Record what an error means that ended the test, and let it fail with a text."""
        self.verdicts([verdict])
        self._due(text, fails=True)

    def leave_out(self, check: str, why: str) -> None:
        """Skip the test because it cannot look at something; where it looks at something else, too, when it ends.

        Args:
            check: Of `purpose_of(item).checks`.
            why: The reason.

        Raises:
            pytest.skip.Exception: It looks at nothing else.
        """
        self._note(left_out={**self._item.stash[_REPORT].left_out, check: why})
        self._due(why)
        self.nothing_came_of(check)

    def nothing_came_of(self, check: str) -> None:
        """End the test where it looks at nothing else, so that nothing is handed to it that is not there.

        Raises:
            pytest.skip.Exception, VerdictFailed: What is due.
        """
        if purpose_of(self._item).checks <= {check}:
            self.end()

    def end(self) -> None:
        """End the test with what is due.

        Raises:
            pytest.skip.Exception, VerdictFailed: What is due.
        """
        deliver_due(self._item)

    def _due(self, text: str, *, fails: bool = False) -> None:
        self._item.stash.setdefault(_DUE, []).append(_Due(fails, text))


def deliver_due(item: pytest.Item, *, skipped: bool = False) -> None:
    """Let a test that ends skip or fail as it has to, without a traceback; nothing where it passes.

    Args:
        item: The test.
        skipped: Whether it is skipped already, so that only what fails has something to say.

    Raises:
        pytest.skip.Exception, VerdictFailed: It skips, or fails.
    """
    fails = any(one.fails for one in item.stash.get(_DUE, []))
    text = take_due(item) if fails or not skipped else ""
    if fails:
        raise VerdictFailed(text, pytrace=False) from None  # it says it all
    if text:
        pytest.skip(text)


def take_due(item: pytest.Item) -> str:
    """Return what a test has to say at its end, a line for each; from then on it has been said."""
    due = item.stash.get(_DUE, [])
    item.stash[_DUE] = []
    return "\n".join(one.text for one in due)


def recorded(item: pytest.Item) -> CaseReport | None:
    """Return what the fixtures recorded for a test; None if it used none of them."""
    return item.stash.get(_REPORT, None)


def _text(verdicts: Sequence[Verdict]) -> str:
    harmless = (Outcome.PASSED, Outcome.HELD, Outcome.IMPROVED)
    return "\n".join(f"{v.outcome.value}: {v.text}" for v in verdicts if v.outcome not in harmless)


@contextlib.contextmanager
def comparing(recorder: Recorder, policy: Policy, *, metric: str, check: str) -> Iterator[None]:
    """Go on without a comparison where there is nothing to compare with, or no memory to compare in.

    What fits into memory is judged where it is measured; here it is said, and recorded. A test that looks at nothing
    else is skipped at once.

    Args:
        recorder: Of the test.
        policy: Says whether INCONCLUSIVE fails.
        metric: Of the verdict.
        check: Of `purpose_of(item).checks`.
    """
    try:
        yield
    except NoReferenceError as error:
        recorder.leave_out(check, str(error))
    except OutOfMemoryError as error:
        verdicts = [no_memory(str(error), metric=metric)]
        recorder.verdicts(verdicts)
        recorder.deliver(verdicts, policy)
        recorder.nothing_came_of(check)


def verdict_of(error: SdperfError) -> Verdict | None:
    """Return the verdict that an error means wherever a test meets it; None where it says nothing of its case.

    A measurement says so by itself. Of a process that took too long, also one that only builds, the machine may have
    been busy or the time too short: nothing about the case was found out.
    """
    if isinstance(error, WorkerError) and error.reason == "timeout":
        return ended(Failure(error.reason, str(error), error.tail), metric="run")
    if isinstance(error, BuildError | UnsupportedGraphError | UnsupportedOptionError):
        return ended(Failure("refused", str(error)), metric="run")
    return None


def attach(report: pytest.TestReport, found: CaseReport | None, error: BaseException | None) -> None:
    """Attach what a test recorded to its report, and why it failed where no verdict says it.

    Args:
        report: Of the test.
        found: What it recorded; None where it has no case.
        error: What ended it.
    """
    if found is None:
        return
    by_verdict = isinstance(error, VerdictFailed)
    if report.failed and not by_verdict:
        lines = str(error).strip().splitlines() if error is not None else []
        found = dataclasses.replace(found, problem=lines[0] if lines else "the test failed")
    report.sdperf = Recorded(found, by_verdict)  # type: ignore[attr-defined]
