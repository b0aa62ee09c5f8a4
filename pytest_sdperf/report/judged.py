"""Whether anything came to a verdict: a run, or a file of results, in which nothing did is INVALID."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.checks.reporting.line import Line, wrapped
from pytest_sdperf.core.units import plural
from pytest_sdperf.core.values.outcomes import Outcome

_REASONS = 3


def is_judged(report: CaseReport) -> bool:
    """Whether a test came to a verdict; NOT MEASURED says that it did not."""
    return report.measured or any(verdict.outcome is not Outcome.NOT_MEASURED for verdict in report.verdicts)


def why_nothing(reports: Sequence[CaseReport], *, measuring: int, asked: int, answered: bool = False) -> str:
    """Say that nothing was judged; empty where something was.

    Args:
        reports: Of a run, or of a file of results.
        measuring: Number of selected tests that measure. None of them measured is nothing, whatever others found out.
        asked: Number of selected tests that have a case; 0 where nobody knows.
        answered: Whether a test that only asserts came to its end: it has no report.
    """
    if measuring and not any(report.measured for report in reports):
        return f"nothing was measured: none of {measuring} selected tests came to it"
    if answered or any(map(is_judged, reports)):
        return ""
    tests = f"none of {asked} selected tests" if asked else "no test of the run"
    return f"nothing was judged: {tests} came to a verdict"


def nothing_lines(why: str, skipped: Iterable[str], *, width: int) -> Iterator[Line]:
    """Yield that nothing was judged, and below it the commonest reasons of skipped tests.

    Args:
        why: From `why_nothing`.
        skipped: Why tests were skipped, one per test.
        width: Columns of the terminal.
    """
    yield Line(f"{Outcome.INVALID.value} {why}", ("red",))
    counted = Counter(reason.partition("\n")[0] for reason in skipped).most_common()
    for reason, count in counted[:_REASONS]:
        yield from wrapped(f"{plural(count, 'test')} skipped: {reason}", width=width, first="  ", rest="    ")
    others = sum(count for _, count in counted[_REASONS:])
    if others:
        yield Line(f"  {plural(others, 'test')} skipped for other reasons: see pytest -rs")
