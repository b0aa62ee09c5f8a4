"""A report as GitHub-flavoured Markdown: header, table and findings, for the summary of a CI job."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pytest_sdperf.checks.fusions.table import fused_texts
from pytest_sdperf.checks.pipelines.tables.cells import HEADINGS, cells_of
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.checks.reporting.gates import wrong_builds
from pytest_sdperf.core.labels import engine_label
from pytest_sdperf.core.values import Case
from pytest_sdperf.core.values.outcomes import Outcome, Verdict
from pytest_sdperf.report.checks import outcome_of, tables
from pytest_sdperf.report.findings import count_line, gap_texts
from pytest_sdperf.report.header import header_texts
from pytest_sdperf.report.judged import is_judged
from pytest_sdperf.report.run_info import RunInfo

_CASE = ("model", "component", "optimization", "engine", "batch")
_COLUMNS = (*_CASE, *(heading.strip() for heading in HEADINGS))
_SPECIAL = re.compile(r"([\\`*_\[\]|~#])")


def markdown_text(reports: Sequence[CaseReport], run: RunInfo, *, title: str, problems: Sequence[str] = ()) -> str:
    """Return a whole report.

    Args:
        reports: Of the run.
        run: What was tested, against what.
        title: Where the results come from.
        problems: Why the results as a whole are INVALID.
    """
    return "\n".join(_lines(reports, run, title=title, problems=problems)) + "\n"


def escaped(text: str) -> str:
    """Return text that Markdown shows as it is, also in a cell of a table."""
    one_line = " ".join(text.split())
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        one_line = one_line.replace(character, entity)
    return _SPECIAL.sub(r"\\\1", one_line)


def _lines(reports: Sequence[CaseReport], run: RunInfo, *, title: str, problems: Sequence[str]) -> Iterator[str]:
    yield f"## {escaped(count_line(reports).text)}"
    yield ""
    yield from _row(("", ""))
    yield from _rule(2)
    for label, text in (("results", title), *header_texts(run)):
        yield from _row((label, text))
    for problem in problems:
        yield ""
        yield f"**INVALID** {escaped(problem)}"
    yield from _table(reports)
    yield from _checks(reports)
    yield from _findings(reports)


def _row(cells: Sequence[str]) -> Iterator[str]:
    yield f"| {' | '.join(map(escaped, cells))} |"


def _rule(columns: int) -> Iterator[str]:
    yield f"|{'---|' * columns}"


def _table(reports: Sequence[CaseReport]) -> Iterator[str]:
    """Yield one row per measured case."""
    cases = {report.case.key: report.case for report in reports if report.measurement is not None}
    if not cases:
        return
    wrong = wrong_builds(reports)
    yield ""
    yield from _row(_COLUMNS)
    yield from _rule(len(_COLUMNS))
    for key, case in cases.items():
        about = [report for report in reports if report.case.key == key]
        cells = cells_of(about, wrong)
        yield from _row((*_named(case), *(text.strip() for text in cells.texts)))


def _checks(reports: Sequence[CaseReport]) -> Iterator[str]:
    """Yield the table of each registered check that has one."""
    for (title, columns), found in tables(reports).items():
        yield from ("", f"### {escaped(title).capitalize()}", "")
        headings = (*_CASE, *columns, "verdict")
        yield from _row(headings)
        yield from _rule(len(headings))
        for report, name, check in found:
            for row in check.rows:
                case, side = report.looked_at_by(row)
                model, *named = _named(case, row.word)
                outcome = outcome_of(report, name, row)
                told = ": ".join(filter(None, [outcome.value if outcome else "", row.details]))
                yield from _row((f"{side}: {model}" if side else model, *named, *row.cells, told))


def _named(case: Case, word: str = "") -> tuple[str, ...]:
    engine = engine_label(case.engine, case.engine_options)
    optimization = f"{case.optimization} ({case.fuser})" if case.fuser else case.optimization
    return (case.model, f"{case.component} {word}".rstrip(), optimization, engine, str(case.batch_size))


def _findings(reports: Sequence[CaseReport]) -> Iterator[str]:
    """Yield what is not as it should be, worst first, each with its sentence."""
    told: list[str] = []
    for outcome in reversed(Outcome):
        for report in reports if outcome is not Outcome.GAP else ():
            for verdict in (one for one in report.verdicts if one.outcome is outcome and one.told):
                told += _finding(report.nodeid, verdict)
    for report in filter(is_judged, reports):
        told += [
            f"- **LEFT OUT** {escaped(f'{report.nodeid}: {check}: {why}')}" for check, why in report.left_out.items()
        ]
    told += [f"- {escaped(text)}" for text in gap_texts(reports, more="the file of --sdperf-json")]
    if told:
        yield from ("", "### Findings", "", *told)
    fused = fused_texts(reports)
    if fused:
        yield from ("", "### Fused operators", "", *(f"- {escaped(text)}" for text in fused))


def _finding(nodeid: str, verdict: Verdict) -> Iterator[str]:
    yield f"- **{verdict.outcome.value}** {escaped(nodeid)}: {escaped(f'{verdict.sentence} [{verdict.code}]')}"
    yield from (f"  - {escaped(detail)}" for detail in verdict.details)
