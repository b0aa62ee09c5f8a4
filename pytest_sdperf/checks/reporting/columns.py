"""A plain table: one row per case, a label and numbers to the right of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pytest_sdperf.checks.reporting.line import Line, Style, wrapped
from pytest_sdperf.core.labels import engine_label
from pytest_sdperf.core.values import Case

INDENT = "  "
_GAP = 2


@dataclass(frozen=True)
class TableRow:
    """One row.

    Attributes:
        label: What it is about.
        cells: One text per column; none where it is a title of the rows below it.
        styles: How it is shown.
        details: Text below it; empty for none.
    """

    label: str
    cells: tuple[str, ...]
    styles: tuple[Style, ...] = ()
    details: str = ""


@dataclass(frozen=True)
class Table:
    """Rows below headings, which a terminal and the page show alike.

    Attributes:
        title: What it is about.
        columns: One heading per cell.
        rows: Without them nothing is shown.
        legend: Texts below it.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]
    legend: tuple[str, ...] = ()

    def lines(self, *, width: int) -> Iterator[Line]:
        """Yield it as a terminal shows it."""
        if self.rows:
            yield from column_lines(self.title, self.columns, self.rows, width=width)
            for text in self.legend:
                yield from wrapped(text, width=width, first=INDENT, rest=INDENT)


def case_label(case: Case, what: str, *, batch: bool, side: str = "", engine: str = "") -> str:
    """Return how a row calls a case.

    Args:
        case: The case.
        what: What of it the row is about, such as its component.
        batch: Whether the batch size belongs to the label.
        side: Of an A/B; empty for none.
        engine: What to call its engine, where a row is about several; empty for its own name and options.
    """
    engine = engine or engine_label(case.engine, case.engine_options)
    fuser = f" ({case.fuser})" if case.fuser else ""
    size = f" batch {case.batch_size}" if batch else ""
    return f"{INDENT}{side and f'{side}: '}{case.model} {what} {case.optimization}{fuser} {engine}{size}"


def request_label(case: Case) -> str:
    """Return what of a model is asked for: `unet, 512x512`, `pipeline, 512x512, 50 steps pndm`."""
    steps = f", {case.steps} steps {case.scheduler}".rstrip() if case.steps else ""
    return f"{case.component}, {case.height}x{case.width}{steps}"


def batches_differ(cases: Iterable[Case]) -> bool:
    """Whether cases differ by their batch size, so that a row has to name it."""
    return len({case.batch_size for case in cases}) > 1


def column_lines(title: str, columns: Sequence[str], rows: Iterable[TableRow], *, width: int) -> Iterator[Line]:
    """Yield a heading and the rows; a label that is too long gets a line of its own, above its numbers."""
    rows = tuple(rows)
    longest = max((len(row.label) for row in rows if row.cells), default=0)
    cells = [columns, *(row.cells for row in rows if row.cells)]
    widths = [max(len(texts[place]) for texts in cells) + _GAP for place in range(len(columns))]
    label_width = max(min(longest, width - sum(widths)), len(title))
    yield Line(f"{title:<{label_width}}{_cells(columns, widths)}", ("bold",))
    for row in rows:
        label = row.label
        if row.cells and len(label) > label_width:
            yield Line(label, row.styles)
            label = ""
        yield Line(f"{label:<{label_width}}{_cells(row.cells, widths)}".rstrip() if row.cells else label, row.styles)
        if row.details:
            yield from wrapped(row.details, width=width, first=INDENT * 2, rest=INDENT * 2, styles=row.styles)


def _cells(texts: Sequence[str], widths: Sequence[int]) -> str:
    return "".join(f"{text:>{width}}" for text, width in zip(texts, widths, strict=True))
