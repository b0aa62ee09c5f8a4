"""A plan as a table of the terminal: what each case takes, and all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from pytest_sdperf.checks.reporting.columns import INDENT, TableRow, column_lines
from pytest_sdperf.checks.reporting.line import Line, wrapped
from pytest_sdperf.core.units import disk_size, duration, megabytes, plural
from pytest_sdperf.plugin.plan.costs import CaseCost

_LEGEND = "unknown: nobody has recorded or counted it; >: some of it"


def cost_lines(costs: Sequence[CaseCost], *, memory: str, width: int) -> Iterator[Line]:
    """Yield a row per case, and one for all of them.

    Args:
        costs: What the cases cost, in the order of their tests.
        memory: What the memory is called.
        width: Of the terminal, in characters.
    """
    steps = sum(len(cost.missing) for cost in costs)
    builds = f"{plural(steps, 'step')} to make" if steps else "nothing to make"
    label = f"in all {plural(len(costs), 'case')}, one step after the other"
    rows = [*map(_row, costs), TableRow(label, _cells(costs), ("bold",), builds)]
    yield from column_lines("case", ("time", "disk", memory), rows, width=width)
    if any(cell.startswith(("unknown", ">")) for row in rows for cell in row.cells):
        yield from wrapped(_LEGEND, width=width, first=INDENT, rest=INDENT)


def _row(cost: CaseCost) -> TableRow:
    if cost.problem:
        return TableRow(cost.wanted.id, ("-",) * 3, ("red",), f"cannot be built: {cost.problem}")
    told = (", ".join(cost.wanted.tests), _builds(cost), "speed is resumed" * cost.resumed, cost.recorded.source)
    return TableRow(cost.wanted.id, _cells([cost]), details="; ".join(filter(None, told)))


def _builds(cost: CaseCost) -> str:
    if not cost.missing:
        return "as above" if any(step.entry is None for step in cost.steps) else "in the cache"
    kinds = Counter(step.kind for step in cost.missing)
    return f"to make: {', '.join(f'{count} {kind}' if count > 1 else kind for kind, count in kinds.items())}"


def _cells(costs: Sequence[CaseCost]) -> tuple[str, ...]:
    return (
        _cell((one for cost in costs for one in cost.seconds), duration),
        _cell((step.size_bytes for cost in costs for step in cost.missing), disk_size),
        _cell((cost.recorded.peak_bytes for cost in costs if cost.wanted.case.engine), megabytes, of=max),
    )


def _cell(parts: Iterable[float | None], told: Callable[[float], str], *, of: Callable[..., float] = sum) -> str:
    """Return the sum, or something else, of what is known, and whether that is all; `-` for nothing."""
    parts = list(parts)
    known = [part for part in parts if part]
    if not known:
        return "unknown" if None in parts else "-"
    return f"{'>' if None in parts else ''}{told(of(known))}"
