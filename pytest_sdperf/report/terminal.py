"""The whole terminal report, as lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pytest_sdperf.baselines.published import Published, beside
from pytest_sdperf.baselines.stored import Baseline
from pytest_sdperf.checks.ab.table import pair_lines
from pytest_sdperf.checks.fusions.table import fused_lines, fused_sums, standing_lines
from pytest_sdperf.checks.pipelines.tables.artifacts import artifact_table
from pytest_sdperf.checks.pipelines.tables.energy import energy_lines
from pytest_sdperf.checks.pipelines.tables.fairness import fairness_lines
from pytest_sdperf.checks.pipelines.tables.floors import floor_lines
from pytest_sdperf.checks.pipelines.tables.latencies import latency_lines
from pytest_sdperf.checks.pipelines.tables.memory import memory_table
from pytest_sdperf.checks.pipelines.tables.requests import request_table
from pytest_sdperf.checks.pipelines.tables.runtime_report import runtime_report_lines
from pytest_sdperf.checks.pipelines.tables.shipped import shipped_beside
from pytest_sdperf.checks.pipelines.tables.tables import table_lines
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.checks.reporting.line import Line, wrapped
from pytest_sdperf.core.components import PIPELINE
from pytest_sdperf.core.units import plural
from pytest_sdperf.core.values.outcomes import Outcome
from pytest_sdperf.report.checks import check_lines
from pytest_sdperf.report.findings import count_line, finding_lines, headline_lines
from pytest_sdperf.report.header import altered_lines, header_lines
from pytest_sdperf.report.interrupted import interrupted_lines
from pytest_sdperf.report.lock_waits import turn_lines
from pytest_sdperf.report.next_command import next_lines
from pytest_sdperf.report.remarks import remark_lines
from pytest_sdperf.report.resumed import resumed_lines
from pytest_sdperf.report.run_info import RunInfo
from pytest_sdperf.report.tolerances import tolerance_lines

_QUIET, _MOST = 10, 10  # lines of a quiet report; unused cases that are named


def report_lines(
    reports: Sequence[CaseReport],
    run: RunInfo,
    *,
    width: int,
    published: Sequence[Published] = (),
    shipped: Sequence[Baseline] = (),
    unused: Iterable[Line] = (),
    written: Sequence[str] = (),
    verbosity: int = 0,
) -> Iterator[Line]:
    """Yield the report of a run: its first line counts verdicts, its last one is the next command to type.

    Args:
        reports: Of every test, in the order in which they ran.
        run: The run as a whole.
        width: Columns of the terminal.
        published: Published tables; rows of the same model and GPU family stand below the measured ones.
        shipped: Baselines that come with the project; their cases stand below the published rows, likewise.
        unused: About stored cases that the run did not use.
        written: What was written: to the baseline (from `acceptance.accept`), or to a file that was asked for.
        verbosity: As pytest counts it: below 0 ten lines; 0 the verdicts, latencies and findings; 1 every table; 2
            also what ran of every case and what fused at every optimization.
    """
    yield from (first := [*interrupted_lines(reports, run, width=width), *altered_lines(run, width=width)])
    yield count_line(reports)
    # Results that were altered on purpose are not to be gone on with.
    following = [] if run.altered else list(next_lines(reports, run, width=width))
    if verbosity < 0:
        room = _QUIET - len(first) - 1 - len(following)
        more = _more(run, "")
        yield from headline_lines(reports, width=width, unused=unused, more=more, most=max(room, 1))
        yield from following
        return
    yield from header_lines(run, width=width, every=verbosity > 0)
    if verbosity:
        for lines in _tables(reports, run, width=width, published=published, shipped=shipped, every=verbosity > 1):
            yield from _section(lines)
    else:
        yield from _section(latency_lines(reports, width=width))
        yield from _section(remark_lines(reports, width=width))
        yield from _section(pair_lines(reports, width=width))
        yield from _section(resumed_lines(reports, width=width, every=False))
        yield from _section(passed_lines(reports, width=width))
    yield from _section(tolerance_lines(reports, run.idle, width=width))
    more = _more(run, " -v")
    told = finding_lines(reports, width=width, candidates=run.keeps_candidates, every=verbosity > 0, more=more)
    yield from _section(told)
    yield from _section(_first(unused, every=verbosity > 0, more=more))
    yield from _section(line for text in written for line in wrapped(text, width=width, rest="  "))
    if not verbosity:
        yield Line()
        text = f"{more} adds memory, builds, agreement, fused operators, floors and kernels"
        yield from wrapped(text, width=width, rest="  ")
    elif following:
        yield Line()
    yield from following


def _tables(
    reports: Sequence[CaseReport],
    run: RunInfo,
    *,
    width: int,
    published: Sequence[Published],
    shipped: Sequence[Baseline],
    every: bool,
) -> Iterator[Iterator[Line]]:
    """Yield every table, each as its lines."""
    for model in dict.fromkeys(report.case.model for report in reports):
        mine = [report for report in reports if report.case.model == model]
        batches = {report.case.batch_size for report in mine if report.case.component == PIPELINE}
        matches = [
            *beside(published, family=run.family, model=model, batch_sizes=batches),
            *shipped_beside(shipped, mine, family=run.family),
        ]
        yield table_lines(mine, matches, width=width)
    yield remark_lines(reports, width=width)
    yield request_table(reports).lines(width=width)
    yield fairness_lines(reports, width=width)
    yield pair_lines(reports, width=width)
    yield resumed_lines(reports, width=width)
    yield turn_lines(reports, width=width)
    yield artifact_table(reports, every=every).lines(width=width)
    yield floor_lines(reports, width=width)
    yield memory_table(reports).lines(width=width)
    yield energy_lines(reports, width=width)
    yield check_lines(reports, width=width)
    yield fused_lines(reports, width=width, every=every)
    yield _standing(reports, width=width)
    yield runtime_report_lines(reports, width=width, every=every)


def _more(run: RunInfo, option: str) -> str:
    """Return what shows more: the same command with an option."""
    return f"{'sdperf gate' if run.results else 'pytest'}{option}"


def _first(lines: Iterable[Line], *, every: bool, more: str) -> Iterator[Line]:
    """Yield the first of lines that may be many, and the number of the others."""
    lines = list(lines)
    yield from lines if every else lines[:_MOST]
    if len(lines) > _MOST and not every:
        yield Line(f"and {plural(len(lines) - _MOST, 'more unused case')}: {more} names them")


def passed_lines(reports: Sequence[CaseReport], *, width: int) -> Iterator[Line]:
    """Yield how many operators fused, and how many cases each registered check found right."""
    for text in fused_sums(reports):
        yield from wrapped(text, width=width, rest="  ")
    found: dict[str, list[Outcome]] = {}
    for report in reports:
        for verdict in report.verdicts:
            if verdict.metric in report.checks:
                found.setdefault(verdict.metric, []).append(verdict.outcome)
    right = [f"{name} {_count_right(outcomes)} of {len(outcomes)}" for name, outcomes in found.items()]
    if right:
        yield from wrapped(f"passed: {', '.join(right)}", width=width, rest="  ")


def _count_right(outcomes: Sequence[Outcome]) -> int:
    return sum(outcome in (Outcome.PASSED, Outcome.HELD, Outcome.IMPROVED) for outcome in outcomes)


def _standing(reports: Sequence[CaseReport], *, width: int) -> Iterator[Line]:
    """Yield which optimizations external graphs have, each once."""
    texts = dict.fromkeys(text for report in reports for text in standing_lines(report.optimizations))
    yield from (line for text in texts for line in wrapped(text, width=width, rest="  "))


def _section(lines: Iterator[Line]) -> Iterator[Line]:
    """Put an empty line before a section that has lines."""
    for number, line in enumerate(lines):
        if not number:
            yield Line()
        yield line
