"""What published rows say beside the columns of a table, and where their numbers come from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_sdperf.baselines.published import ALIKE, CHANGES, Cell, PublishedMatch
from pytest_sdperf.checks.reporting.line import Line, wrapped
from pytest_sdperf.core.units import digits, percent, seconds

_INDENT = "  "
_WARM_UPS = {"warmup_compilation_s": "with compilation", "warmup_cache_s": "from a cache"}


def by_table(published: Sequence[PublishedMatch]) -> list[list[PublishedMatch]]:
    """Return rows by the table that they are of, in the order of their sources."""
    tables = dict.fromkeys(match.key for match in published)
    return [[match for match in published if match.key == key] for key in tables]


def source_lines(published: Sequence[PublishedMatch], *, width: int) -> Iterator[Line]:
    """Yield the source of each number, and below it what a row says that has no column."""
    for number, matches in enumerate(by_table(published), 1):
        table = matches[0].table
        alike = (
            f" (of {table.model}, which has the architecture of {ALIKE[table.model]})" if table.model in ALIKE else ""
        )
        text = f"[{number}] {matches[0].source.title}: {table.name}{alike}"
        yield from wrapped(text, width=width, first=_INDENT, rest=_INDENT * 3)
        for match in matches:
            for cell in match.row.cells:
                if told := "; ".join(_told(cell)):
                    text = f"{match.row.label}, batch {cell.batch_size}: {told}"
                    yield from wrapped(text, width=width, first=_INDENT * 3, rest=_INDENT * 4)


def _told(cell: Cell) -> Iterator[str]:
    values = cell.values
    if "iterations_per_s" in values:
        yield f"{digits(values['iterations_per_s'])} iterations/s"
    for name, what in CHANGES.items():
        if name in values:
            yield f"{what} {percent(1 + values[name] / 100)}"
    for name, how in _WARM_UPS.items():
        if name in values:
            yield f"warm-up {seconds(values[name])} {how}"
    if "memory_gb" in values:
        yield f"memory {values['memory_gb']:g} GB, says the source"
