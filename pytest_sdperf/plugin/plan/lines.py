"""A plan as lines of the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pytest_sdperf.checks.reporting.line import Line, wrapped
from pytest_sdperf.core.units import disk_size, duration, megabytes, plural
from pytest_sdperf.core.values.outcomes import Outcome
from pytest_sdperf.plugin.plan.cost import CaseCost
from pytest_sdperf.plugin.plan.estimate import ESTIMATED, Estimate, total

_INDENT = "  "
_TESTS, _NUMBER = 24, 13
NOT_KNOWN = "?"


@dataclass(frozen=True)
class Plan:
    """A plan and what it is held against.

    Attributes:
        costs: Of every case, in the order in which they run.
        device: What it runs on, or that it is not here.
        folder: Where builds are written.
        free_bytes: Room on that disk; None if it cannot be told.
        memory_bytes: Memory of the device; None for a CPU, or if it cannot be told.
        on_gpu: Whether memory is a GPU's.
        skipped: Why tests are skipped -> how many.
        budget_s: What the run may take; 0 for as long as it takes.
        beyond: Positions in `costs` of what does not fit into it.
    """

    costs: Sequence[CaseCost]
    device: str
    folder: Path
    free_bytes: int | None = None
    memory_bytes: float | None = None
    on_gpu: bool = False
    skipped: Mapping[str, int] = field(default_factory=dict)
    budget_s: float = 0.0
    beyond: frozenset[int] = frozenset()


class Footnotes:
    """Numbers the sources of a plan in the order in which they occur."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._estimated = False

    def cell(self, figure: Estimate | None, told: Callable[[float], str]) -> str:
        """Return a number with marks that say where it comes from; `-` for nothing at all."""
        if figure is None:
            return NOT_KNOWN
        if not figure.value:
            return "-"
        self._estimated |= figure.estimated
        measured = [source for source in figure.sources if source != ESTIMATED]
        marks = [str(self._numbers.setdefault(source, len(self._numbers) + 1)) for source in measured]
        mark = f" [{','.join(marks)}]" if marks else ""
        return f"{'~' if figure.estimated else ''}{told(figure.value)}{mark}"

    def legend(self) -> Iterator[str]:
        """Yield what the marks mean."""
        if self._estimated:
            yield "~ estimated, at least in part, from the size of the model and the device; expect a factor of two"
        yield from (f"[{number}] {source}" for source, number in self._numbers.items())


def plan_lines(outlook: Plan, *, width: int) -> Iterator[Line]:
    """Yield the plan of a run: one paragraph per case, then all of them together."""
    yield from wrapped(f"device     {outlook.device}", width=width, rest=" " * 11)
    if not outlook.costs:
        yield from wrapped(_nothing(outlook), width=width, styles=("yellow",))
        yield from _skipped(outlook, width=width)
        return
    sources = Footnotes()
    yield Line()
    memory = "GPU memory" if outlook.on_gpu else "memory"
    heads = f"{'time':>{_NUMBER}}{'disk':>{_NUMBER}}{memory:>{_NUMBER}}"
    yield Line(f"{'case':<{_TESTS}}{heads}  builds", ("bold",))
    for number, cost in enumerate(outlook.costs):
        yield from _case(cost, sources, width=width, beyond=number in outlook.beyond)
    yield Line()
    yield from _in_all(outlook, sources, width=width)
    yield from _skipped(outlook, width=width)
    for text in sources.legend():
        yield from wrapped(text, width=width, first=_INDENT, rest=_INDENT * 2)


def _nothing(outlook: Plan) -> str:
    if outlook.skipped:
        return "nothing would run: every selected test of a case is skipped"
    return "nothing is selected: no selected test is about a case"


def _case(cost: CaseCost, sources: Footnotes, *, width: int, beyond: bool) -> Iterator[Line]:
    said = f": {Outcome.NOT_MEASURED.value}" if beyond else ": speed is resumed" if cost.resumed else ""
    yield Line(f"{cost.wanted.id}{said}")
    if cost.problem:
        yield from wrapped(
            f"cannot be built: {cost.problem}", width=width, first=_INDENT, rest=_INDENT, styles=("red",)
        )
        return
    memory = "OOM" if cost.out_of_memory else "-" if cost.memory is None else sources.cell(cost.memory, megabytes)
    numbers = (sources.cell(cost.seconds, duration), sources.cell(cost.disk, disk_size), memory)
    cells = "".join(f"{number:>{_NUMBER}}" for number in numbers)
    yield Line(f"{_INDENT + ', '.join(cost.wanted.tests):<{_TESTS}}{cells}  {_builds(cost)}".rstrip())


def _builds(cost: CaseCost) -> str:
    if not cost.to_make:
        return "in the cache" if cost.cached else "as above"
    kinds = Counter(cost.to_make)
    names = [f"{count} {kind}" if count > 1 else kind for kind, count in kinds.items()]
    if len(", ".join(names)) > 30:
        return f"to make: {len(cost.to_make)} steps"
    return f"to make: {', '.join(names)}"


def _in_all(outlook: Plan, sources: Footnotes, *, width: int) -> Iterator[Line]:
    costs = [cost for number, cost in enumerate(outlook.costs) if number not in outlook.beyond]
    (build, unknown), (run, more) = total(cost.build for cost in costs), total(cost.run for cost in costs)
    disk, _ = total(cost.disk for cost in costs)

    def told(figure: Estimate, of: Callable[[float], str] = duration) -> str:
        return sources.cell(None if (unknown or more) and not figure.value else figure, of)

    missing = sum(len(cost.to_make) for cost in costs)
    cases = len({cost.wanted.case.key for cost in costs})
    within = f" within {duration(outlook.budget_s)}" if outlook.budget_s else ""
    yield Line(f"in all {plural(cases, 'case')}{within}, one step after the other", ("bold",))
    made = f"{plural(missing, 'step')}, {told(build)}"
    made += f", {told(disk, disk_size)} of disk" if disk.value else ""
    yield from _labelled("building", made if missing else "nothing: it is in the cache", width=width)
    yield from _labelled("running", told(run), width=width)
    yield from _labelled("together", told(build + run), width=width)
    if outlook.on_gpu:
        yield from _labelled("GPU memory", _largest(outlook, sources), width=width)
    yield from _room(outlook, disk, width=width)
    if outlook.beyond:
        text = f"{plural(len(outlook.beyond), 'test')} {Outcome.NOT_MEASURED.value}, unless the others take less time"
        yield from wrapped(text, width=width, first=_INDENT, rest=_INDENT, styles=("yellow",))
    if unknown or more:
        text = f"of {plural(max(unknown, more), 'case')} nobody can tell the cost ({NOT_KNOWN}): it is left out here"
        yield from wrapped(text, width=width, first=_INDENT, rest=_INDENT, styles=("yellow",))


def _largest(outlook: Plan, sources: Footnotes) -> str:
    known = [cost.memory for cost in outlook.costs if cost.memory is not None]
    largest = max(known, key=lambda figure: figure.value, default=None)
    of = f", of {megabytes(outlook.memory_bytes)}" if outlook.memory_bytes else ""
    return f"at most {sources.cell(largest, megabytes)}{of}"


def _room(outlook: Plan, disk: Estimate, *, width: int) -> Iterator[Line]:
    if outlook.free_bytes is not None and disk.value > outlook.free_bytes:
        text = f"{outlook.folder} has {disk_size(outlook.free_bytes)} left: name another disk with --sdperf-cache-dir"
        yield from wrapped(text, width=width, first=_INDENT, rest=_INDENT, styles=("red",))
    needed = [cost for cost in outlook.costs if cost.memory is not None]
    over = [cost for cost in needed if outlook.memory_bytes and cost.memory.value > outlook.memory_bytes]  # type: ignore[union-attr]
    if over:
        names = ", ".join(dict.fromkeys(cost.wanted.id for cost in over))
        text = f"may not fit into the device's memory, which is recorded as OOM: {names}"
        yield from wrapped(text, width=width, first=_INDENT, rest=_INDENT, styles=("yellow",))


def _labelled(label: str, text: str, *, width: int) -> Iterator[Line]:
    yield from wrapped(text, width=width, first=f"{_INDENT}{label:<12}", rest=" " * 14)


def _skipped(outlook: Plan, *, width: int) -> Iterator[Line]:
    for reason, count in outlook.skipped.items():
        text = f"{plural(count, 'test')} skipped: {reason}"
        yield from wrapped(text, width=width, first=_INDENT, rest=_INDENT * 2)
