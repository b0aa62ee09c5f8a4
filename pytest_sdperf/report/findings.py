"""Everything that is not as it should be, worst first, each with its sentence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pytest_sdperf.checks.judging.verdict import worst
from pytest_sdperf.checks.pipelines.judging.waiting import most_waited
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.checks.reporting.line import STYLES, Line, wrapped
from pytest_sdperf.core.units import plural, share
from pytest_sdperf.core.values.outcomes import Outcome, Verdict
from pytest_sdperf.report.judged import is_judged

_WORST_FIRST = tuple(reversed(Outcome))
_INDENT = "  "
_MOST_IN_FULL = 10
_ALIKE = 3  # tests that are named of those with the same finding


@dataclass(frozen=True)
class Finding:
    """What is not as it should be.

    Attributes:
        kind: Alike for findings that one reader reads as the same.
        lines: The first says of what it is.
    """

    kind: str
    lines: list[Line]


def finding_lines(
    reports: Sequence[CaseReport],
    *,
    width: int,
    candidates: bool = True,
    every: bool = False,
    more: str = "pytest -v",
) -> Iterator[Line]:
    """Yield the findings. Cases without a baseline are many on a first run and share a line; so do gaps on every run.

    Args:
        reports: Of the run.
        width: Columns of the terminal.
        candidates: Whether results of this run are kept as candidates.
        every: Tell all findings, and each gap, although it is as stored; else the worst of them, and their number.
        more: What tells all of them.
    """
    found = list(findings(reports, width=width, every=every, more=more))
    told = found if every else first_of_each_kind(found, _MOST_IN_FULL)
    for finding in told:
        yield from finding.lines
    if len(told) < len(found):
        text = f"and {plural(len(found) - len(told), 'more finding')}: {more} tells them"
        yield from wrapped(text, width=width, rest=_INDENT, styles=("bold",))
    yield from notice_lines(reports, width=width, candidates=candidates)


def notice_lines(reports: Sequence[CaseReport], *, width: int, candidates: bool) -> Iterator[Line]:
    """Yield what is told of the run as a whole: how much has no baseline, and how far other programs disturbed it."""
    yield from _without_baseline(reports, width=width, candidates=candidates)
    yield from _replaced(reports, width=width)
    yield from _disturbed(reports, width=width)


def headline_lines(
    reports: Sequence[CaseReport], *, width: int, unused: Iterable[Line] = (), more: str, most: int
) -> Iterator[Line]:
    """Yield the first line of each finding.

    Args:
        reports: Of the run.
        width: Columns of the terminal.
        unused: About stored cases that the run did not use.
        more: What tells all of them.
        most: Lines that there is room for, at least one.
    """
    found = [
        *findings(reports, width=width, every=False, more=more),
        *(Finding(line.text, [line]) for line in unused),
    ]
    fits = len(found) <= most
    for finding in found if fits else first_of_each_kind(found, most - 1):
        yield finding.lines[0]
    if not fits:
        yield Line(f"and {plural(len(found) - most + 1, 'more finding')}: {more}", ("bold",))


def first_of_each_kind(found: Sequence[Finding], most: int) -> list[Finding]:
    """Return that many findings, in their order: one of each kind first, for forty alike would hide another."""
    kinds: set[str] = set()
    again: list[bool] = []
    for finding in found:
        again.append(finding.kind in kinds)
        kinds.add(finding.kind)
    chosen = sorted(range(len(found)), key=lambda place: (again[place], place))[:most]
    return [found[place] for place in sorted(chosen)]


def findings(reports: Sequence[CaseReport], *, width: int, every: bool, more: str) -> Iterator[Finding]:
    """Yield the findings, the worst first.

    Args:
        reports: Of the run.
        width: Columns of a line.
        every: Name every test of a finding, and tell each gap.
        more: What tells all of them.
    """
    for outcome in _WORST_FIRST:
        if outcome is Outcome.GAP and not every:
            styles = (*STYLES[outcome], "bold")
            for text in gap_texts(reports, more=more):
                yield Finding(outcome.value, list(wrapped(text, width=width, rest=_INDENT, styles=styles)))
            continue
        for nodeids, found in _alike(reports, outcome):
            shown = nodeids if every else nodeids[:_ALIKE]
            lines = [Line(f"{outcome.value} {nodeid}", (*STYLES.get(outcome, ()), "bold")) for nodeid in shown]
            if len(shown) < len(nodeids):
                lines.append(Line(f"{_INDENT}and {plural(len(nodeids) - len(shown), 'more test')} alike"))
            lines += (line for verdict in found for line in _sentence(verdict, width=width))
            yield Finding(" ".join([outcome.value, *(verdict.code for verdict in found)]), lines)
    yield from _not_measured(reports, width=width, every=every)
    yield from _left_out(reports, width=width)


def _alike(reports: Sequence[CaseReport], outcome: Outcome) -> Iterator[tuple[list[str], Sequence[Verdict]]]:
    """Yield the verdicts of an outcome, and the tests that have just these: a build that cannot be made ends many."""
    told: dict[tuple[object, ...], tuple[list[str], Sequence[Verdict]]] = {}
    for report in reports:
        found = [verdict for verdict in report.verdicts if verdict.outcome is outcome and verdict.told]
        if found:
            words = tuple((verdict.sentence, verdict.code, tuple(verdict.details)) for verdict in found)
            told.setdefault(words, ([], found))[0].append(report.nodeid)
    yield from told.values()


def gap_texts(reports: Sequence[CaseReport], *, more: str) -> Iterator[str]:
    """Yield one text for all gaps: each is as stored, so that it is no news.

    Args:
        reports: Of the run.
        more: What tells each.
    """
    gaps = sum(verdict.outcome is Outcome.GAP for report in reports for verdict in report.verdicts)
    if gaps:
        lack = "lacks operators, as is stored of it" if gaps == 1 else "lack operators, as is stored of them"
        yield f"{Outcome.GAP.value} {plural(gaps, 'graph')} {lack}: {more} tells which and why"


def _without_baseline(reports: Sequence[CaseReport], *, width: int, candidates: bool) -> Iterator[Line]:
    """Yield how many cases have nothing to be compared with."""
    new = {
        report.case.key for report in reports if any(v.outcome is Outcome.NEW and not v.told for v in report.verdicts)
    }
    if new:
        kept = ", and results are kept as candidates" if candidates else ""
        text = f"{Outcome.NEW.value} {plural(len(new), 'case')} without a baseline; nothing was compared{kept}"
        yield from wrapped(text, width=width, rest=_INDENT, styles=("bold",))


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


def _not_measured(reports: Sequence[CaseReport], *, width: int, every: bool) -> Iterator[Finding]:
    """Yield the tests that the time budget left out, each with the reason; or the first of them, and their number."""
    left = [(r.nodeid, v) for r in reports for v in r.verdicts if v.outcome is Outcome.NOT_MEASURED]
    if not left:
        return
    what = f"{Outcome.NOT_MEASURED.value} {plural(len(left), 'test')}"
    lines = [Line(what, (*STYLES[Outcome.NOT_MEASURED], "bold"))]
    for nodeid, verdict in left if every else left[:_ALIKE]:
        lines.append(Line(f"{_INDENT}{nodeid}"))
        lines += wrapped(verdict.sentence, width=width, first=_INDENT * 2, rest=_INDENT * 2)
    if len(left) > _ALIKE and not every:
        lines.append(Line(f"{_INDENT}and {plural(len(left) - _ALIKE, 'more test')}"))
    yield Finding(Outcome.NOT_MEASURED.value, lines)


def _left_out(reports: Sequence[CaseReport], *, width: int) -> Iterator[Finding]:
    """Yield what a test could not look at, although it judged something else."""
    for report in filter(is_judged, reports):
        for check, why in report.left_out.items():
            heading = Line(f"LEFT OUT the {check} of {report.nodeid}", ("yellow", "bold"))
            yield Finding(check, [heading, *wrapped(why, width=width, first=_INDENT, rest=_INDENT)])


def _sentence(verdict: Verdict, *, width: int) -> Iterator[Line]:
    yield from wrapped(f"{verdict.sentence} [{verdict.code}]", width=width, first=_INDENT, rest=_INDENT)
    for detail in verdict.details:
        yield from wrapped(detail, width=width, first=_INDENT * 2, rest=_INDENT * 3)


def count_line(*runs: Sequence[CaseReport]) -> Line:
    """Return the line that counts cases by their worst verdict, worst first; a case of two devices is two cases."""
    by_case: dict[tuple[int, str], Outcome] = {}
    for number, reports in enumerate(runs):
        for report in reports:
            if report.outcome is not None:
                key = number, report.case.key
                before = by_case.get(key, report.outcome)
                by_case[key] = max(before, report.outcome, key=lambda outcome: outcome.rank)
    outcomes = list(by_case.values())
    if not outcomes:
        return Line("verdicts: none, nothing was judged", ("yellow", "bold"))
    counted = [f"{outcomes.count(outcome)} {outcome.value}" for outcome in _WORST_FIRST if outcome in outcomes]
    text = f"verdicts of {plural(len(outcomes), 'case')}: {', '.join(counted)}"
    return Line(text, (*STYLES.get(worst(outcomes), ("green",)), "bold"))
