"""Everything that is not HELD, worst first, each with its sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_sdperf.judging.waiting import most_waited
from pytest_sdperf.report.case_report import CaseReport
from pytest_sdperf.report.judged import is_judged
from pytest_sdperf.report.line import STYLES, Line, wrapped
from pytest_sdperf.units import plural, share
from pytest_sdperf.values.outcomes import Outcome, Verdict

_WORST_FIRST = tuple(reversed(Outcome))
_INDENT = "  "


def finding_lines(reports: Sequence[CaseReport], *, width: int, candidates: bool = True) -> Iterator[Line]:
    """Yield the findings; cases without a baseline are many on a first run and share one line.

    Args:
        reports: Of the run.
        width: Columns of the terminal.
        candidates: Whether results of this run are kept as candidates.
    """
    for outcome in _WORST_FIRST:
        if outcome in (Outcome.HELD, Outcome.NEW, Outcome.NOT_MEASURED):
            continue
        for report in reports:
            found = [verdict for verdict in report.verdicts if verdict.outcome is outcome]
            if found:
                yield Line(f"{outcome.value} {report.nodeid}", (*STYLES[outcome], "bold"))
            for verdict in found:
                yield from _sentence(verdict, width=width)
    yield from _not_measured(reports, width=width)
    yield from _left_out(reports, width=width)
    new = [report.case.key for report in reports if any(v.outcome is Outcome.NEW for v in report.verdicts)]
    if new:
        what = plural(len(set(new)), "case")
        kept = ", and results are kept as candidates" if candidates else ""
        text = f"{Outcome.NEW.value} {what} without a baseline; nothing was compared{kept}"
        yield from wrapped(text, width=width, rest=_INDENT, styles=("bold",))
    yield from _replaced(reports, width=width)
    yield from _disturbed(reports, width=width)


def _replaced(reports: Sequence[CaseReport], *, width: int) -> Iterator[Line]:
    """Yield how many processes something else disturbed, so that others took their place."""
    found = [one.replaced for report in reports if (one := report.measurement) is not None and one.replaced]
    samples = [sample for replaced in found for sample in replaced]
    if samples:
        text = (
            f"{plural(len(samples), 'process', 'processes')} of {plural(len(found), 'case')} waited up to "
            f"{share(most_waited(samples))} of the time for processors that something else used: measured again, and "
            f"not judged. --sdperf-json holds them as `replaced`."
        )
        yield from wrapped(text, width=width, rest=_INDENT)


def _disturbed(reports: Sequence[CaseReport], *, width: int) -> Iterator[Line]:
    """Yield that something else used the processors while cases were timed."""
    measured = {report.case.key: report.measurement.samples for report in reports if report.measurement is not None}
    shares = [one for samples in measured.values() if (one := most_waited(samples))]
    if shares:
        text = (
            f"While {plural(len(shares), 'case was', 'cases were')} timed, something else used the processors: their "
            f"threads waited up to {share(max(shares))} of the time. Measure again where nothing else runs, before you "
            f"accept what is here."
        )
        yield from wrapped(text, width=width, rest=_INDENT, styles=("bold",))


def _not_measured(reports: Sequence[CaseReport], *, width: int) -> Iterator[Line]:
    """Yield the tests that the time budget left out, each with what it would have taken."""
    left = [(r.nodeid, v) for r in reports for v in r.verdicts if v.outcome is Outcome.NOT_MEASURED]
    if left:
        yield Line(f"{Outcome.NOT_MEASURED.value} {plural(len(left), 'test')}", (*STYLES[Outcome.NOT_MEASURED], "bold"))
    for nodeid, verdict in left:
        yield Line(f"{_INDENT}{nodeid}")
        yield from wrapped(verdict.sentence, width=width, first=_INDENT * 2, rest=_INDENT * 2)


def _left_out(reports: Sequence[CaseReport], *, width: int) -> Iterator[Line]:
    """Yield what a test could not look at, although it judged something else."""
    for report in filter(is_judged, reports):
        for look, why in report.left_out.items():
            yield Line(f"LEFT OUT the {look} of {report.nodeid}", ("yellow", "bold"))
            yield from wrapped(why, width=width, first=_INDENT, rest=_INDENT)


def _sentence(verdict: Verdict, *, width: int) -> Iterator[Line]:
    yield from wrapped(f"{verdict.sentence} [{verdict.code}]", width=width, first=_INDENT, rest=_INDENT)
    for detail in verdict.details:
        yield from wrapped(detail, width=width, first=_INDENT * 2, rest=_INDENT * 3)


def count_line(reports: Sequence[CaseReport]) -> Line:
    """Return the line that counts cases by their worst verdict, worst first."""
    by_case: dict[str, Outcome] = {}
    for report in reports:
        if report.outcome is not None:
            before = by_case.get(report.case.key, report.outcome)
            by_case[report.case.key] = max(before, report.outcome, key=lambda outcome: outcome.rank)
    outcomes = list(by_case.values())
    wrong = sum(len(report.disagreements) for report in reports)
    disagreeing = f"; {plural(wrong, 'agreement')} FAILED" if wrong else ""
    right = sum(agreement.passed for report in reports for agreement in report.agreements)
    if not outcomes and right and not wrong:
        return Line(f"agreements: {right}, each within its limit", ("green", "bold"))
    if not outcomes:
        return Line(f"verdicts: none, nothing was judged{disagreeing}", ("red" if wrong else "yellow", "bold"))
    counted = [f"{outcomes.count(outcome)} {outcome.value}" for outcome in _WORST_FIRST if outcome in outcomes]
    worst = Outcome.REGRESSED if wrong else max(outcomes, key=lambda outcome: outcome.rank)
    text = f"verdicts of {plural(len(outcomes), 'case')}: {', '.join(counted)}{disagreeing}"
    return Line(text, (*STYLES.get(worst, ("green",)), "bold"))
