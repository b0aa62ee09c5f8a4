"""One table per model: rows are optimizations and engines, columns latency and memory per batch size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pytest_sdperf.baselines.published import PublishedMatch
from pytest_sdperf.checks.pipelines.tables.cells import (
    BLANK,
    BLOCK_WIDTH,
    HEADING,
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
from pytest_sdperf.checks.reporting.gates import concerns, wrong_builds
from pytest_sdperf.checks.reporting.line import STYLES, Line, wrapped
from pytest_sdperf.core.labels import engine_label
from pytest_sdperf.core.values import Case
from pytest_sdperf.core.values.outcomes import Outcome

_INDENT = "  "
_SHARED = ("fuser", "exporter", "opset", "shapes", "weights", "fp32_ops")
_HALF_SUMS = " (float16 sums)"
_LEGEND = {"!": "regressed", "x": "invalid", "?": "inconclusive", "~": "gap", "+": "improved"}


@dataclass(frozen=True)
class Labels:
    """How rows of one table are called: fields that every case shares move into the heading."""

    varying: tuple[str, ...]
    optimization_width: int
    engine_width: int

    def of(self, case: Case) -> str:
        """Return a row's label."""
        varied = [str(getattr(case, name)) for name in self.varying if getattr(case, name)]
        engine = engine_label(case.engine, case.engine_options)
        optimization = f"{case.optimization:<{self.optimization_width}}"
        return " ".join([f"{_INDENT}{optimization}", engine, *([f"({', '.join(varied)})"] if varied else [])]).rstrip()


@dataclass(frozen=True)
class SpeedRow:
    """A label and its cells by batch size."""

    label: str
    cells: dict[int, Cells]


def table_lines(
    reports: Iterable[CaseReport], published: Sequence[PublishedMatch] = (), *, width: int
) -> Iterator[Line]:
    """Yield the table of one model; batch sizes that do not fit beside each other follow below each other.

    Args:
        reports: Of one model.
        published: Rows of others, of the same model on the same GPU family.
        width: Columns of the terminal.
    """
    reports = tuple(reports)
    measured = [report for report in reports if report.measurement is not None]
    if not measured:
        return
    cases = [report.case for report in measured]
    labels = _labels(cases, published)
    yield from wrapped(f"{cases[0].model}{_shared(cases, labels)}", width=width, rest=_INDENT, styles=("bold",))
    groups = [*_groups(measured, reports, labels), *_published_groups(published, labels)]
    batches = sorted({report.case.batch_size for report in measured})
    label_width, per_line = _layout(groups, labels, batches=len(batches), width=width)
    for start in range(0, len(batches), per_line):
        if start:
            yield Line()
        yield from _part(groups, labels, batches[start : start + per_line], label_width=label_width)
    yield from _spreads(measured, labels, width=width)
    yield from _legend(groups, _whose(measured), width=width)
    yield from source_lines(published, width=width)


def _layout(
    groups: Sequence[tuple[str, list[SpeedRow]]], labels: Labels, *, batches: int, width: int
) -> tuple[int, int]:
    """Return the width of the label column and how many batch sizes stand beside each other.

    As many as the usual labels allow; a longer label gets a line of its own, above its numbers.
    """
    usual = len(_heading_label(labels))
    per_line = min(max((width - usual) // BLOCK_WIDTH, 1), batches)
    longest = max(len(row.label) for _, rows in groups for row in rows)
    return max(min(longest, width - per_line * BLOCK_WIDTH), usual), per_line


def _labels(cases: Sequence[Case], published: Sequence[PublishedMatch]) -> Labels:
    optimizations = [*(case.optimization for case in cases), *(match.row.optimization for match in published)]
    varying = tuple(name for name in _SHARED if len({getattr(case, name) for case in cases} - {"", 0}) > 1)
    return Labels(
        varying,
        max(len(name) for name in ("optimization", *optimizations)),
        max(len("engine"), *(len(case.engine) for case in cases)),
    )


def _shared(cases: Sequence[Case], labels: Labels) -> str:
    """Return what every case has in common; a case that compiles the module itself has no fuser or exporter."""
    spelled = {"fuser": "{} fuser", "exporter": "{} exporter", "opset": "opset {}", "shapes": "{} shapes",
               "weights": "weights {}", "fp32_ops": "{} in float32"}  # fmt: skip
    values = {name: next(filter(None, (getattr(case, name) for case in cases)), None) for name in _SHARED}
    told = [spelled[name].format(value) for name, value in values.items() if value and name not in labels.varying]
    return f": {', '.join(told)}" if told else ""


def _heading_label(labels: Labels) -> str:
    return f"{_INDENT}{'optimization':<{labels.optimization_width}} {'engine':<{labels.engine_width}}"


def _groups(
    measured: Sequence[CaseReport], reports: Sequence[CaseReport], labels: Labels
) -> Iterator[tuple[str, list[SpeedRow]]]:
    """Yield the title and rows of each component, in the order in which they were measured."""
    wrong = wrong_builds(reports)
    cases = list({report.case.key: report.case for report in measured}.values())
    for title in dict.fromkeys(map(_title, cases)):
        rows: dict[str, SpeedRow] = {}
        for case in cases:
            if _title(case) == title:
                about = [report for report in reports if report.case.key == case.key]
                cells = cells_of(about, disagrees=any(concerns(gate, case) for gate in wrong))
                marked = _HALF_SUMS if any(sums_in_half(report.measurement) for report in about) else ""
                label = f"{labels.of(case)}{marked}"
                rows.setdefault(label, SpeedRow(label, {})).cells[case.batch_size] = cells
        yield title, list(rows.values())


def _title(case: Case) -> str:
    steps = f", {case.steps} steps {case.scheduler}".rstrip() if case.steps else ""
    return f"{case.component}, {case.height}x{case.width}{steps}"


def _published_groups(published: Sequence[PublishedMatch], labels: Labels) -> Iterator[tuple[str, list[SpeedRow]]]:
    """Yield the titles and rows of others; tables of one title stand together, each row with its own source."""
    sources = {match.key: number for number, matches in enumerate(by_table(published), 1) for match in matches}
    groups: dict[str, dict[tuple[str, str], SpeedRow]] = {}
    for match in published:
        table, label, source = match.table, _published_label(match, labels), f"[{sources[match.key]}]"
        protocol = f", {table.height}x{table.width}, {table.steps} steps" if table.steps else ""
        rows = groups.setdefault(f"{match.kind}, {table.device or table.family}{protocol}", {})
        numbers = [cell for cell in match.row.cells if cell.has_numbers]
        cells = {cell.batch_size: cells_of_published(cell, source=source) for cell in numbers}
        if cells:
            rows.setdefault((source, label), SpeedRow(label, {})).cells.update(cells)
    for title, rows in groups.items():
        yield title, list(rows.values())


def _published_label(match: PublishedMatch, labels: Labels) -> str:
    row = match.row
    if row.optimization:
        return f"{_INDENT}{row.optimization:<{labels.optimization_width}} {row.engine}"
    return _INDENT + " ".join(word for word in (row.engine, row.version, row.provider) if word)


def _part(
    groups: Sequence[tuple[str, list[SpeedRow]]], labels: Labels, batches: Sequence[int], *, label_width: int
) -> Iterator[Line]:
    over = [f"{f'batch {size}':^{BLOCK_WIDTH}}" for size in batches]
    yield Line(f"{'':<{label_width}}{''.join(over)}".rstrip(), ("bold",))
    yield Line(f"{_heading_label(labels):<{label_width}}{HEADING.text * len(batches)}".rstrip(), ("bold",))
    for title, rows in groups:
        shown = [row for row in rows if any(size in row.cells for size in batches)]
        if shown:
            yield Line(title, ("cyan",))
        for row in shown:
            cells = [row.cells.get(size, BLANK) for size in batches]
            text = "".join(cell.text for cell in cells)
            outcomes = [cell.outcome for cell in cells if cell.outcome is not None]
            worst = max(outcomes, key=lambda outcome: outcome.rank, default=Outcome.HELD)
            label = row.label
            if len(label) > label_width:
                yield Line(label, STYLES.get(worst, ()))
                label = ""
            yield Line(f"{label:<{label_width}}{text}".rstrip(), STYLES.get(worst, ()))


def _spreads(measured: Sequence[CaseReport], labels: Labels, *, width: int) -> Iterator[Line]:
    """Yield a line per case whose processes differ by more than one number can stand for."""
    shown: dict[str, CaseReport] = {}
    for report in measured:
        shown.setdefault(report.case.key, report)
    for case, told in ((report.case, spread_of(report)) for report in shown.values()):
        if told:
            of = f"{case.component} {case.height}x{case.width} {' '.join(labels.of(case).split())}"
            yield from wrapped(f"{of}, batch {case.batch_size}: {told}", width=width, first=_INDENT, rest=2 * _INDENT)


def _whose(measured: Sequence[CaseReport]) -> str:
    """Say whose memory the peaks are; nothing where nobody could tell them."""
    told = {"device": " on the whole device", "host": " of the worker process"}
    samples = (sample for report in measured if report.measurement for sample in report.measurement.samples)
    return next((told[sample.memory_source] for sample in samples if sample.memory_source in told), "")


def _legend(groups: Sequence[tuple[str, list[SpeedRow]]], whose: str, *, width: int) -> Iterator[Line]:
    texts = [text for _, rows in groups for row in rows for cells in row.cells.values() for text in cells.texts[1:4]]
    used = [mark for mark in MARKS.values() if any(text.endswith(mark) for text in texts if text.strip())]
    parts = [f"{mark} {_LEGEND[mark]}" for mark in used]
    if any(row.label.endswith(_HALF_SUMS) for _, rows in groups for row in rows):
        parts.append("float16 sums: products are accumulated in float16, faster and less exactly than in other rows")
    if any(text.strip() == STAR for text in texts):
        parts.append("* suspicious images, says the source")
    if any(text.endswith(MORE) for text in texts):
        parts.append(f"{MORE} more in other processes of the case, as told above")
    parts.append(f"MB = 2^20 bytes{whose}, peak of the first and the second run, the least of the processes")
    yield from wrapped("; ".join(parts), width=width, first=_INDENT, rest=_INDENT)
