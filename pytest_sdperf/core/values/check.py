"""What a check found out, with all that prints it, so that a file of results is printed where the check is not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_sdperf.core.values.outcomes import Outcome


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
class CheckRow:
    """A row of a check's table.

    Attributes:
        cells: One per column.
        word: Stands behind the component; mostly empty.
        details: A line below it.
        outcome: What this row means by itself; None where the verdict says it.
        side: Of an A/B, whose row it is, where both sides were looked at; else empty.
    """

    cells: tuple[str, ...]
    word: str = ""
    details: str = ""
    outcome: Outcome | None = None
    side: str = ""


@dataclass(frozen=True)
class Counted:
    """What a baseline has, or may have, of what a check counts of a case.

    Attributes:
        file: Below the folder of baselines: `fusions/onnxruntime-1.32.json`.
        key: Of the case in that file.
        counts: Such as `domain::op_type` -> nodes; empty where nothing is stored, not even of an older release.
        older: The older release that they are known of; empty for the one that is asked about.
    """

    file: str
    key: str
    counts: Mapping[str, int] = field(default_factory=dict)
    older: str = ""


@dataclass(frozen=True)
class CheckReport:
    """What a check found out about a case.

    Attributes:
        table: Title of its table, which several checks may share.
        finding: JSON data of the check's own; where both sides of an A/B were looked at, by side.
        columns: Headings of its table; empty where it has none.
        rows: Those of the case.
        legend: Texts below the table.
        advice: What to type next where its verdict is the worst of a run.
        counted: What a baseline may keep of it; None for nothing.
        explanation: What is for `--sdperf-explain` alone, because it is longer than everything else; None for nothing.
    """

    table: str
    finding: Any
    columns: tuple[str, ...] = ()
    rows: tuple[CheckRow, ...] = ()
    legend: tuple[str, ...] = ()
    advice: Advice | None = None
    counted: Counted | None = None
    explanation: Any = None
