"""The exit status of a whole run: of its verdicts, and of what no verdict says."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.judging.verdict import exit_status
from pytest_sdperf.core.values.outcomes import Outcome

NOTHING_JUDGED = 10  # as INVALID
UNUSED = 12  # as a missing baseline: tests and baseline do not match


def run_status(
    outcomes: Iterable[Outcome], *, policy: Policy, other_failures: bool, nothing_judged: bool, unused: bool
) -> int:
    """Return the exit status of a run.

    Args:
        outcomes: Of every verdict that failed its test.
        policy: How strictly.
        other_failures: Whether a test failed for another reason than a verdict.
        nothing_judged: Whether nothing that was asked for came to a verdict (`report.judged.why_nothing`).
        unused: Whether the baseline holds cases that nothing measures any more.
    """
    status = exit_status(outcomes, policy=policy, other_failures=other_failures)
    if status:
        return status
    if nothing_judged:
        return NOTHING_JUDGED
    return UNUSED if unused and policy.fail_on_unused else 0
