"""One table per model: a row per optimization, engine and batch size; latency and memory beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pytest_sdperf.baselines.published import PublishedMatch
from pytest_sdperf.checks.pipelines.tables.cells import (
    HEADINGS,
    MARKS,
    MORE,
    STAR,
    Cells,
    cells_of,
    cells_of_published,
)
from pytest_sdperf.checks.pipelines.tables.fairness import sums_in_half
from pytest_sdperf.checks.pipelines.tables.published import by_table, source_lines
from pytest_sdperf.checks.pipelines.tables.spread import spread_of
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.checks.reporting.columns import INDENT, TableRow, column_lines, request_label
from pytest_sdperf.checks.reporting.gates import wrong_builds
from pytest_sdperf.checks.reporting.line import STYLES, Line, wrapped
from pytest_sdperf.core.labels import engine_label
from pytest_sdperf.core.values import Case

HALF_SUMS = " (float16 sums)"
_SHARED = ("fuser", "exporter", "opset", "shapes", "weights", "fp32_ops")
_LEGEND = {"!": "regressed", "x": "invalid", "?": "inconclusive", "~": "gap", "+": "improved"}


@dataclass(frozen=True)
class _Row:
    """A measured case or a published number.

    Attributes:
        title: What was measured; rows of one title stand below it.
        label: Optimization and engine.
        batch: Images per call.
        cells: The numbers.
    """

    title: str
    label: str
    batch: int
    cells: Cells


def table_lines(
    reports: Iterable[CaseReport], published: Sequence[PublishedMatch] = (), *, width: int
) -> Iterator[Line]:
    """Yield the table of one model.

    Args:
        reports: Of one model.
        published: Rows of others, of the same model on the same GPU family; those of batch sizes that were measured.
        width: Columns of the terminal.
    """
    reports = tuple(reports)
    measured = [report for report in reports if report.measurement is not None]
    if not measured:
        return
    cases = list({report.case.key: report.case for report in measured}.values())
    batches = {case.batch_size for case in cases}
    optimizations = [*(case.optimization for case in cases), *(match.row.optimization for match in published)]
    longest = max(map(len, optimizations))
    theirs = [row for row in _published_rows(published, longest) if row.batch in batches]
    rows = [*_rows(cases, reports, longest), *theirs]
    yield from wrapped(f"{cases[0].model}{_shared(cases)}", width=width, rest=INDENT, styles=("bold",))
    yield from column_lines("", HEADINGS, _by_title(rows, several=len(batches) > 1), width=width)
    yield from _spreads(measured, width=width)
    yield from _legend(rows, _whose(measured), width=width)
    yield from source_lines(published, width=width)


def varying_fields(cases: Iterable[Case]) -> tuple[str, ...]:
    """Return what of their builds tells cases apart, so that a row has to name it."""
    cases = tuple(cases)
    return tuple(name for name in _SHARED if len({getattr(case, name) for case in cases} - {"", 0}) > 1)


def _by_title(rows: Sequence[_Row], *, several: bool) -> Iterator[TableRow]:
    """Yield the rows below their titles.

    Args:
        rows: In the order in which they were measured; published ones last.
        several: Whether there are several batch sizes, so that a row has to name its own.
    """
    for title in dict.fromkeys(row.title for row in rows):
        yield TableRow(title, (), ("cyan",))
        for row in rows:
            if row.title == title:
                styles = STYLES.get(row.cells.outcome, ()) if row.cells.outcome is not None else ()
                yield TableRow(f"{row.label} batch {row.batch}" if several else row.label, row.cells.texts, styles)


def _shared(cases: Sequence[Case]) -> str:
    """Return what every case has in common; a case that compiles the module itself has no fuser or exporter."""
    spelled = {"fuser": "{} fuser", "exporter": "{} exporter", "opset": "opset {}", "shapes": "{} shapes",
               "weights": "weights {}", "fp32_ops": "{} in float32"}  # fmt: skip
    varying = varying_fields(cases)
    values = {name: next(filter(None, (getattr(case, name) for case in cases)), None) for name in _SHARED}
    told = [spelled[name].format(value) for name, value in values.items() if value and name not in varying]
    return f": {', '.join(told)}" if told else ""


def _rows(cases: Sequence[Case], reports: Sequence[CaseReport], longest: int) -> Iterator[_Row]:
    """Yield the row of each case, in the order in which they were measured."""
    wrong, varying = wrong_builds(reports), varying_fields(cases)
    for case in cases:
        about = [report for report in reports if report.case.key == case.key]
        cells = cells_of(about, wrong)
        half = HALF_SUMS if any(sums_in_half(report.measurement) for report in about) else ""
        yield _Row(request_label(case), f"{_label(case, varying, longest)}{half}", case.batch_size, cells)


def _label(case: Case, varying: Sequence[str], longest: int = 0) -> str:
    varied = ", ".join(str(getattr(case, name)) for name in varying if getattr(case, name))
    engine = engine_label(case.engine, case.engine_options)
    return f"{INDENT}{case.optimization:<{longest}} {engine}{varied and f' ({varied})'}"


def _published_rows(published: Sequence[PublishedMatch], longest: int) -> Iterator[_Row]:
    """Yield the rows of others, each with its own source."""
    sources = {match.key: number for number, matches in enumerate(by_table(published), 1) for match in matches}
    for match in published:
        table, row = match.table, match.row
        protocol = f", {table.height}x{table.width}, {table.steps} steps" if table.steps else ""
        title = f"{match.kind}, {table.device or table.family}{protocol}"
        words = [f"{row.optimization:<{longest}}", row.engine] if row.optimization else [row.engine, row.version]
        words += [] if row.optimization else [row.provider]
        for cell in row.cells:
            if cell.has_numbers:
                label = INDENT + " ".join(filter(None, words))
                yield _Row(title, label, cell.batch_size, cells_of_published(cell, source=f"[{sources[match.key]}]"))


def _spreads(measured: Sequence[CaseReport], *, width: int) -> Iterator[Line]:
    """Yield a line per case whose processes differ by more than one number can stand for."""
    varying = varying_fields(report.case for report in measured)
    shown = {report.case.key: report for report in reversed(measured)}
    for report in reversed(shown.values()):
        told = spread_of(report)
        if told:
            case = report.case
            of = f"{case.component} {case.height}x{case.width} {_label(case, varying).strip()}"
            yield from wrapped(f"{of}, batch {case.batch_size}: {told}", width=width, first=INDENT, rest=2 * INDENT)


def _whose(measured: Sequence[CaseReport]) -> str:
    """Say whose memory the peaks are; nothing where nobody could tell them."""
    told = {"device": " on the whole device", "host": " of the worker process"}
    samples = (sample for report in measured if report.measurement for sample in report.measurement.samples)
    return next((told[sample.memory_source] for sample in samples if sample.memory_source in told), "")


def _legend(rows: Sequence[_Row], whose: str, *, width: int) -> Iterator[Line]:
    texts = [text for row in rows for text in row.cells.texts[1:4]]
    used = [mark for mark in MARKS.values() if any(text.endswith(mark) for text in texts if text.strip())]
    parts = [f"{mark} {_LEGEND[mark]}" for mark in used]
    if any(row.label.endswith(HALF_SUMS) for row in rows):
        parts.append("float16 sums: products are accumulated in float16, faster and less exactly than in other rows")
    if any(text.strip() == STAR for text in texts):
        parts.append("* suspicious images, says the source")
    if any(text.endswith(MORE) for text in texts):
        parts.append(f"{MORE} more in other processes of the case, as told above")
    parts.append(f"MB = 2^20 bytes{whose}, peak of the first and the second run, the least of the processes")
    yield from wrapped("; ".join(parts), width=width, first=INDENT, rest=INDENT)
