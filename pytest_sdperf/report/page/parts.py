"""What a page is made of: sections of figures, tables and texts, without any word of HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_sdperf.checks.reporting.columns import Table
from pytest_sdperf.checks.reporting.line import STYLES
from pytest_sdperf.core.values.outcomes import Outcome


@dataclass(frozen=True)
class Cell:
    """One cell of a table.

    Attributes:
        text, details: As it is written, and what stands below it, smaller.
        value: The number that is written, as the file of results has it; None for a text.
        style: `red`, `yellow` or `green`; empty for none.
        points: Date and seconds of each point of a line; none for no line.
    """

    text: str
    value: float | None = None
    style: str = ""
    details: str = ""
    points: Sequence[tuple[str, float]] = ()


@dataclass(frozen=True)
class Grid:
    """A table, with texts below it. The first cell of a row says what it is about."""

    title: str
    headings: tuple[str, ...]
    rows: Sequence[Sequence[Cell]]
    legend: Sequence[str] = ()

    @property
    def compact(self) -> Grid:
        """The same without columns that are empty."""
        kept = [place for place in range(len(self.headings)) if any(row[place].text for row in self.rows)]
        rows = [[row[place] for place in kept] for row in self.rows]
        return Grid(self.title, tuple(self.headings[place] for place in kept), rows, self.legend)


@dataclass(frozen=True)
class Figure:
    """A chart, what is to be seen in it in a sentence, and a table of the same numbers.

    `kind` says how `page.js` draws `data`, which is plain JSON data.
    """

    kind: str
    title: str
    answer: str
    data: Mapping[str, Any]
    grid: Grid


@dataclass(frozen=True)
class Block:
    """A part of a section, which can be folded where it has a title.

    Attributes:
        pictures: Data URI of each picture, and what it shows.
        code: Text that keeps its lines.
        fold: Whether it is closed at first.
    """

    title: str = ""
    figures: Sequence[Figure] = ()
    grids: Sequence[Grid] = ()
    texts: Sequence[str] = ()
    pictures: Sequence[tuple[str, str]] = ()
    code: str = ""
    fold: bool = False


@dataclass(frozen=True)
class Section:
    """A section, which the page does not have without blocks. `id` is its anchor."""

    id: str
    title: str
    intro: str
    blocks: Sequence[Block]


def style_of(outcome: Outcome | None) -> str:
    """Return the ink of a verdict; empty for none."""
    return STYLES.get(outcome, ("",))[0] if outcome is not None else ""


def grid_of(table: Table, *, title: str = "") -> Grid:
    """Return a table of the terminal as one of the page."""
    rows = [
        [
            Cell(row.label.strip(), style=row.styles[0] if row.styles else "", details=row.details),
            *(Cell(text.strip()) for text in row.cells),
        ]
        for row in table.rows
    ]
    return Grid(title or table.title, ("case", *table.columns), rows, table.legend)


def matrix(title: str, corner: str, found: Mapping[tuple[str, str], Cell]) -> Grid:
    """Return a table of what has a row and a column: `found[row, column]`, both in the order of their first cells."""
    rows, columns = dict.fromkeys(row for row, _ in found), dict.fromkeys(column for _, column in found)
    cells = [[Cell(row), *(found.get((row, column), Cell("")) for column in columns)] for row in rows]
    return Grid(title, (corner, *columns), cells)
