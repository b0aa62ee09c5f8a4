"""The latencies of a whole run in one table: engines and batch sizes as columns, unless rows make it shorter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_sdperf.checks.pipelines.tables.cells import MARKS, Cells, cells_of
from pytest_sdperf.checks.pipelines.tables.fairness import sums_in_half
from pytest_sdperf.checks.pipelines.tables.tables import HALF_SUMS, varying_fields
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.checks.reporting.columns import INDENT, request_label
from pytest_sdperf.checks.reporting.gates import wrong_builds
from pytest_sdperf.checks.reporting.line import STYLES, Line, wrapped
from pytest_sdperf.core.labels import engine_label
from pytest_sdperf.core.values.outcomes import Outcome

_MARKS = {**MARKS, Outcome.FAILED: "x"}
LEGEND = {"!": "regressed", "x": "failed or invalid", "?": "inconclusive", "+": "improved"}


@dataclass(frozen=True)
class _Place:
    """Where a case stands.

    Attributes:
        title: What was measured, above its rows.
        row: Label of the row.
        column: Heading of the column, one text per line.
        cells: What is shown there.
    """

    title: str
    row: str
    column: tuple[str, str]
    cells: Cells


def latency_lines(reports: Sequence[CaseReport], *, width: int) -> Iterator[Line]:
    """Yield the table: latency, change since the baseline, and the mark of the worst verdict.

    Args:
        reports: Of the run.
        width: Columns of the terminal; what does not fit beside each other follows below.
    """
    by_case: dict[str, list[CaseReport]] = {}
    for report in reports:
        by_case.setdefault(report.case.key, []).append(report)
    about = {key: found for key, found in by_case.items() if any(one.measurement is not None for one in found)}
    if not about:
        return
    wrong = wrong_builds(reports)
    cells = {key: cells_of(found, wrong) for key, found in about.items()}
    engines = {key: _engine(found) for key, found in about.items()}
    tables = [_table(list(_places(about, cells, engines, beside=beside)), width=width) for beside in (True, False)]
    yield from min(tables, key=len)
    used = [mark for mark in LEGEND if any(_mark(each) == mark for each in cells.values())]
    if used:
        yield from wrapped("; ".join(f"{mark} {LEGEND[mark]}" for mark in used), width=width, first=INDENT)


def _engine(about: Iterable[CaseReport]) -> str:
    about = list(about)
    half = any(sums_in_half(report.measurement) for report in about)
    return f"{engine_label(about[0].case.engine, about[0].case.engine_options)}{HALF_SUMS if half else ''}"


def _places(
    about: Mapping[str, Sequence[CaseReport]], cells: Mapping[str, Cells], engines: Mapping[str, str], *, beside: bool
) -> Iterator[_Place]:
    """Yield where each case stands.

    Args:
        about: Key of a case -> its reports.
        cells: The same -> what is shown of it.
        engines: The same -> what its engine is called.
        beside: Whether engines are columns; else they are rows.
    """
    cases = {key: found[0].case for key, found in about.items()}
    models = dict.fromkeys(case.model for case in cases.values())
    varying = {model: varying_fields(case for case in cases.values() if case.model == model) for model in models}
    several = len({case.batch_size for case in cases.values()}) > 1
    optimization_width = max(len(case.optimization) for case in cases.values())
    for key, case in cases.items():
        varied = [str(getattr(case, name)) for name in varying[case.model] if getattr(case, name)]
        engine, batch = engines[key], f"batch {case.batch_size}"
        words = [case.optimization if beside else f"{case.optimization:<{optimization_width}} {engine}"]
        words += [f"({', '.join(varied)})"] if varied else []
        column = (engine if beside else "", batch if several or not beside else "")
        yield _Place(f"{case.model} {request_label(case)}", INDENT + " ".join(words), column, cells[key])


def _table(places: Sequence[_Place], *, width: int) -> list[Line]:
    """Return the table of one arrangement; as many columns as fit stand beside each other."""
    change_width = max(len(_change(place.cells)) for place in places)
    label_width = max(len(place.row) for place in places)
    widths: dict[tuple[str, str], int] = {}
    for place in places:
        needed = max(len(_text(place.cells, change_width)), *map(len, place.column)) + 2
        widths[place.column] = max(widths.get(place.column, 0), needed)
    lines: list[Line] = []
    for columns in _beside(widths, width - label_width):
        lines += [Line()] if lines else []
        lines += _part([place for place in places if place.column in columns], columns, label_width, change_width)
    return lines


def _beside(widths: Mapping[tuple[str, str], int], room: int) -> Iterator[dict[tuple[str, str], int]]:
    """Yield the columns that stand beside each other, at least one each time."""
    part: dict[tuple[str, str], int] = {}
    for column, needed in widths.items():
        if part and sum(part.values()) + needed > room:
            yield part
            part = {}
        part[column] = needed
    yield part


def _part(
    places: Sequence[_Place], columns: Mapping[tuple[str, str], int], label_width: int, change_width: int
) -> Iterator[Line]:
    for number in range(2):
        if any(column[number] for column in columns):
            heads = "".join(f"{column[number]:>{wide}}" for column, wide in columns.items())
            yield Line(f"{'':<{label_width}}{heads}", ("bold",))
    for title in dict.fromkeys(place.title for place in places):
        yield Line(title, ("cyan",))
        for row in dict.fromkeys(place.row for place in places if place.title == title):
            of = {place.column: place.cells for place in places if (place.title, place.row) == (title, row)}
            outcomes = [cells.outcome for cells in of.values() if cells.outcome is not None]
            worst = max(outcomes, key=lambda outcome: outcome.rank, default=Outcome.HELD)
            texts = {column: _text(cells, change_width) for column, cells in of.items()}
            numbers = "".join(f"{texts.get(column, ''):>{wide}}" for column, wide in columns.items())
            yield Line(f"{row:<{label_width}}{numbers}".rstrip(), STYLES.get(worst, ()))


def _text(cells: Cells, change_width: int) -> str:
    return f"{cells.texts[0]:>7}" + (f" {_change(cells):>{change_width}}" if change_width else "")


def _change(cells: Cells) -> str:
    """Return the change since the baseline, and behind it the mark of the worst verdict; empty for neither."""
    number, mark = cells.texts[1][: cells.texts[1].find("%") + 1], _mark(cells)
    return f"{number}{mark or (' ' if number else '')}"


def _mark(cells: Cells) -> str:
    return _MARKS.get(cells.outcome, "") if cells.outcome is not None else ""
