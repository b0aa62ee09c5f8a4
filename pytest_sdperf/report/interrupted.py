"""What becomes of a run that was ended from outside: nothing of it is kept or accepted, and the reader has to know."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.checks.reporting.line import Line, wrapped
from pytest_sdperf.core.units import plural
from pytest_sdperf.report.run_info import RunInfo

_MOST_NAMED = 10


def interrupted_lines(reports: Sequence[CaseReport], run: RunInfo, *, width: int) -> Iterator[Line]:
    """Yield how far a run came, what became of that, and the tests that are left; nothing if nobody interrupted it."""
    if not run.interrupted or run.results:
        return
    measured = len({report.case.key for report in reports if report.measured})
    far = f"{measured} of {plural(run.to_measure, 'case')} measured; " if run.to_measure else ""
    became = "nothing was accepted" if run.updating else "nothing was kept as a candidate"
    onwards = (
        "the command at the end of this report resumes it, and measures the rest"
        if run.resumable
        else "the next run begins anew"
    )
    yield from wrapped(f"INTERRUPTED: {far}{became}; {onwards}", width=width, rest="  ", styles=("red", "bold"))
    if run.left:
        yield Line(f"  left {plural(len(run.left), 'test')}:")
    yield from (Line(f"    {name}") for name in run.left[:_MOST_NAMED])
    if len(run.left) > _MOST_NAMED:
        yield Line(f"    and {len(run.left) - _MOST_NAMED} more")
