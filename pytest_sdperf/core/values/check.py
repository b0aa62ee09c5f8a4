"""What a check found out, with all that prints it, so that a file of results is printed where the check is not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Advice:
    """What to type next.

    Attributes:
        why: What that does, such as `draw every prompt of the list`.
        option: It is added to the command that was typed: `--flag`, or `--name=value`.
    """

    why: str
    option: str


@dataclass(frozen=True)
class CheckReport:
    """What a check found out about a case.

    Attributes:
        table: Title of its table, which several checks may share.
        finding: JSON data of the check's own.
        word: Stands in its row, behind the component; mostly empty.
        columns: Headings of its table; empty where it has none.
        cells: One per column.
        legend: Text below the table.
        advice: What to type next where its verdict is the worst of a run.
    """

    table: str
    finding: Any
    word: str = ""
    columns: tuple[str, ...] = ()
    cells: tuple[str, ...] = ()
    legend: str = ""
    advice: Advice | None = None
