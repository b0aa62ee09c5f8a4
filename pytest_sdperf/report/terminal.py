"""The whole terminal report, as lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pytest_sdperf.baselines.published import Published, beside
from pytest_sdperf.baselines.stored import Baseline
from pytest_sdperf.checks.ab.table import pair_lines
from pytest_sdperf.checks.fusions.table import fused_lines, standing_lines
from pytest_sdperf.checks.pipelines.tables.artifacts import artifact_lines
from pytest_sdperf.checks.pipelines.tables.energy import energy_lines
from pytest_sdperf.checks.pipelines.tables.fairness import fairness_lines
from pytest_sdperf.checks.pipelines.tables.floors import floor_lines
from pytest_sdperf.checks.pipelines.tables.memory import memory_lines
from pytest_sdperf.checks.pipelines.tables.requests import request_lines
from pytest_sdperf.checks.pipelines.tables.runtime_report import runtime_report_lines
from pytest_sdperf.checks.pipelines.tables.shipped import shipped_beside
from pytest_sdperf.checks.pipelines.tables.tables import table_lines
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.checks.reporting.line import Line, wrapped
from pytest_sdperf.core.components import PIPELINE
from pytest_sdperf.report.checks import check_lines
from pytest_sdperf.report.findings import count_line, finding_lines
from pytest_sdperf.report.header import altered_lines, header_lines
from pytest_sdperf.report.interrupted import interrupted_lines
from pytest_sdperf.report.lock_waits import turn_lines
from pytest_sdperf.report.next_command import next_lines
from pytest_sdperf.report.remarks import remark_lines
from pytest_sdperf.report.resumed import resumed_lines
from pytest_sdperf.report.run_info import RunInfo
from pytest_sdperf.report.tolerances import tolerance_lines


def report_lines(
    reports: Sequence[CaseReport],
    run: RunInfo,
    *,
    width: int,
    published: Sequence[Published] = (),
    shipped: Sequence[Baseline] = (),
    unused: Iterable[Line] = (),
    written: Sequence[str] = (),
    verbose: bool = False,
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
        verbose: Show what ran of every case and what fused at every optimization, and tell each gap.
    """
    yield from interrupted_lines(reports, run, width=width)
    yield from altered_lines(run, width=width)
    yield count_line(reports)
    yield from _section(header_lines(run, width=width))
    for model in dict.fromkeys(report.case.model for report in reports):
        mine = [report for report in reports if report.case.model == model]
        batches = {report.case.batch_size for report in mine if report.case.component == PIPELINE}
        matches = [
            *beside(published, family=run.family, model=model, batch_sizes=batches),
            *shipped_beside(shipped, mine, family=run.family),
        ]
        yield from _section(table_lines(mine, matches, width=width))
    yield from _section(remark_lines(reports, width=width))
    yield from _section(request_lines(reports, width=width))
    yield from _section(fairness_lines(reports, width=width))
    yield from _section(pair_lines(reports, width=width))
    yield from _section(resumed_lines(reports, width=width))
    yield from _section(turn_lines(reports, width=width))
    yield from _section(artifact_lines(reports, width=width, every=verbose))
    yield from _section(floor_lines(reports, width=width))
    yield from _section(memory_lines(reports, width=width))
    yield from _section(energy_lines(reports, width=width, every=verbose))
    yield from _section(check_lines(reports, width=width))
    yield from _section(fused_lines(reports, width=width, every=verbose))
    yield from _section(_standing(reports, width=width))
    yield from _section(runtime_report_lines(reports, width=width, every=verbose))
    yield from _section(tolerance_lines(reports, run.idle, width=width))
    yield from _section(finding_lines(reports, width=width, candidates=run.keeps_candidates, every=verbose))
    yield from _section(iter(unused))
    yield from _section(line for text in written for line in wrapped(text, width=width, rest="  "))
    if not run.altered:
        yield Line()
        yield from next_lines(reports, run, width=width)


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
