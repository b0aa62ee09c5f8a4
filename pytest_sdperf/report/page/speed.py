"""Sections of times and memory: the ladder, others beside it, intervals, the floor, kernels, and history."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pytest_sdperf.baselines.published import Published, PublishedMatch, beside
from pytest_sdperf.baselines.stored import Baseline
from pytest_sdperf.checks.pipelines.tables.cells import cells_of_published
from pytest_sdperf.checks.pipelines.tables.floors import reached
from pytest_sdperf.checks.pipelines.tables.published import source_lines
from pytest_sdperf.checks.pipelines.tables.shipped import shipped_beside
from pytest_sdperf.checks.pipelines.tables.spread import peaks_of
from pytest_sdperf.checks.reporting.columns import batches_differ
from pytest_sdperf.core.components import PIPELINE
from pytest_sdperf.core.units import digits, megabytes, percent, plural, seconds, share
from pytest_sdperf.report.page.measured import Row
from pytest_sdperf.report.page.merged import Device
from pytest_sdperf.report.page.parts import Block, Cell, Figure, Grid, matrix, style_of

_OPEN = 2  # groups that are not folded at first
_WIDE = 10**6


def grouped(rows: Iterable[Row], key: Callable[[Row], Any]) -> dict[Any, list[Row]]:
    """Return rows by a key, in their order."""
    found: dict[Any, list[Row]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found


def _blocks(rows: Iterable[Row], figures: Callable[[list[Row]], Iterator[Figure]]) -> list[Block]:
    """Return a block per group that has figures; the first of them stand open."""
    blocks: list[Block] = []
    for group, mine in grouped(rows, lambda row: row.group).items():
        if made := tuple(figures(mine)):
            blocks.append(Block(group, made, fold=len(blocks) >= _OPEN))
    return blocks


def _bars(title: str, answer: str, bars: Sequence[Mapping[str, Any]], *, corner: str, unit: str = "s") -> Figure:
    """Return bars with their table.

    Args:
        title: What is shown.
        answer: In a sentence.
        bars: `y` is the row, `s` the series, `v` the number (None where there is none), `t` its text.
        corner: What the rows are.
        unit: `s`, or `share`.
    """
    cells = {(bar["y"], bar["s"]): Cell(bar["t"], bar["v"], bar.get("ink", "")) for bar in bars}
    return Figure("bars", title, answer, {"unit": unit, "bars": bars}, matrix(title, corner, cells))


def ladder(rows: Iterable[Row]) -> list[Block]:
    """Return bars per model and batch size."""
    return _blocks(rows, _ladder_figures)


def _ladder_figures(rows: list[Row]) -> Iterator[Figure]:
    for batch, mine in grouped(rows, lambda row: row.case.batch_size).items():
        title = f"Latency of {mine[0].group}, batch {batch}"
        yield _bars(title, _fastest(mine), [_bar(row) for row in mine], corner="optimization")


def _bar(row: Row) -> dict[str, Any]:
    ends = row.ends_s or (None, None)
    found = {
        "y": row.case.optimization,
        "s": row.series,
        "v": row.latency_s,
        "t": row.text,
        "lo": ends[0],
        "hi": ends[1],
    }
    return {**found, "ink": style_of(row.cells.outcome)}


def _fastest(rows: Sequence[Row]) -> str:
    """Say which is fastest, and how much the ladder of its engine brings."""
    timed = [(row.latency_s, row) for row in rows if row.is_result and row.latency_s is not None]
    if not timed:
        return f"None of {plural(len(rows), 'case')} has a time that is a result."
    best_s, best = min(timed, key=lambda one: one[0])
    told = f"{best.case.optimization} on {best.series} is fastest: {seconds(best_s)}"
    slowest_s, slowest = max((one for one in timed if one[1].series == best.series), key=lambda one: one[0])
    if slowest is not best:
        told += f", {digits(slowest_s / best_s)} times as fast as {slowest.case.optimization} ({seconds(slowest_s)})"
    lost = ", ".join(f"{row.case.optimization} on {row.series}" for row in rows if row.measurement.out_of_memory)
    return f"{told}.{f' Out of memory: {lost}.' if lost else ''}"


def beside_ours(
    devices: Sequence[Device], rows: Iterable[Row], published: Sequence[Published], shipped: Sequence[Baseline]
) -> list[Block]:
    """Return ours beside rows of others, of the same model on a GPU of the same family."""
    rows = list(rows)
    blocks: list[Block] = []
    for device in devices:
        keys = {report.case.key for report in device.reports if report.measurement is not None}
        mine = [row for row in rows if row.case.key in keys]
        for model in dict.fromkeys(row.case.model for row in mine):
            about = [report for report in device.reports if report.case.model == model]
            batches = {
                row.case.batch_size for row in mine if row.case.model == model and row.case.component == PIPELINE
            }
            matches = (
                *beside(published, family=device.run.family, model=model, batch_sizes=batches),
                *(shipped_beside(shipped, about, family=device.run.family) if device.judged else ()),
            )
            if made := list(_beside_figures([row for row in mine if row.case.model == model], matches)):
                sources = [line.text.strip() for line in source_lines(matches, width=_WIDE)]
                blocks.append(Block(f"{model} on {device.name}", made, texts=sources))
    return blocks


def _beside_figures(rows: Sequence[Row], matches: Sequence[PublishedMatch]) -> Iterator[Figure]:
    for group, mine in grouped(rows, lambda row: (row.group, row.case.batch_size)).items():
        case = mine[0].case
        theirs: list[dict[str, Any]] = []
        for match in matches:
            component = case.component in match.kind if match.kind != "published" else case.component == PIPELINE
            for cell in match.row.cells if component else ():
                if cell.batch_size == case.batch_size and (latency := cell.latency_s):
                    kind, words = match.kind.partition(",")[0], [match.row.optimization, match.row.engine]
                    words += [match.row.version, match.table.device] if kind == "published" else []
                    text = cells_of_published(cell, source="").texts[0]
                    theirs.append({"y": " ".join(filter(None, words)), "s": kind, "v": latency, "t": text})
        if theirs:
            ours = [
                {"y": f"{row.case.optimization} {row.series}", "s": "this run", "v": row.latency_s, "t": row.text}
                for row in mine
                if row.latency_s is not None
            ]
            fastest = min(theirs, key=lambda bar: bar["v"])
            answer = f"{_fastest(mine)} The fastest of the others: {fastest['y']}, {fastest['t']} ({fastest['s']})."
            yield _bars(f"{group[0]}, batch {group[1]}", answer, [*ours, *theirs], corner="build")


def spread(rows: Iterable[Row]) -> list[Block]:
    """Return latency and memory with their ranges, per model."""
    return _blocks(rows, _spread_figures)


def _spread_figures(rows: list[Row]) -> Iterator[Figure]:
    several = batches_differ(row.case for row in rows)
    label = {id(row): f"{row.series}, batch {row.case.batch_size}" if several else row.series for row in rows}
    dots = [{**_bar(row), "y": label[id(row)], "o": row.case.optimization} for row in rows if row.latency_s is not None]
    if dots:
        title, spread_of = f"Latency of {rows[0].group}", max(dots, key=lambda dot: dot["hi"] / dot["lo"])
        widest = f"The medians of processes differ most at {spread_of['o']} on {spread_of['y']}, by "
        answer = (
            f"{widest}{percent(spread_of['hi'] / spread_of['lo'])[1:]}." if spread_of["hi"] > spread_of["lo"] else ""
        )
        yield Figure("dots", title, answer or "One process of each was timed.", {"dots": dots}, _numbers(rows, title))
    peaks = [(row, peaks_of(row.report, "first-run-memory"), peaks_of(row.report, "second-run-memory")) for row in rows]
    told: list[dict[str, Any]] = [
        {"y": label[id(row)], "o": row.case.optimization, "v": min(second), "lo": min(second), "hi": min(first)}
        for row, first, second in peaks
        if first and second
    ]
    if told:
        title = f"Memory of {rows[0].group}"
        least, most = min(told, key=lambda one: one["v"]), max(told, key=lambda one: one["hi"])
        answer = (
            f"In the second run {least['o']} on {least['y']} takes least, {megabytes(least['v'])}; in the first run "
            f"{most['o']} on {most['y']} takes most, {megabytes(most['hi'])}."
            if len(told) > 1
            else f"{megabytes(least['hi'])} in the first run, {megabytes(least['v'])} in the second."
        )
        cells = {
            (f"{one['o']}, {one['y']}", run): Cell(megabytes(one[end]), one[end])
            for one in told
            for run, end in (("first run", "hi"), ("second run", "lo"))
        }
        yield Figure("memory", title, answer, {"dots": told}, matrix(title, "case", cells))


def _numbers(rows: Iterable[Row], title: str) -> Grid:
    """Return every number of cases, as the terminal writes them."""
    headings = ("optimization", "engine", "batch", "latency", "processes", "change", "held within", "verdict")
    grid = Grid(
        title,
        headings,
        [
            [
                Cell(row.case.optimization),
                Cell(row.series),
                Cell(str(row.case.batch_size)),
                Cell(row.text, row.latency_s),
                Cell(row.processes),
                Cell(row.cells.texts[1].strip()),
                Cell(row.held),
                Cell(row.cells.texts[4], style=style_of(row.cells.outcome)),
            ]
            for row in rows
        ],
    )
    return grid.compact


def floors(rows: Iterable[Row]) -> list[Block]:
    """Return the share of the physical floor that each case reaches."""
    return _blocks(rows, _floor_figures)


def _floor_figures(rows: list[Row]) -> Iterator[Figure]:
    for batch, mine in grouped(rows, lambda row: row.case.batch_size).items():
        parts = [(row, part) for row in mine if (part := reached(row.measurement)) is not None]
        if parts:
            best, most = max(parts, key=lambda one: one[1])
            answer = (
                f"{best.case.optimization} on {best.series} comes nearest to its floor: {share(most)} of that speed."
            )
            bars = [{"y": row.case.optimization, "s": row.series, "v": part, "t": share(part)} for row, part in parts]
            title = f"Share of the floor, {mine[0].group}, batch {batch}"
            yield _bars(title, answer, bars, corner="optimization", unit="share")


def kernels(rows: Iterable[Row]) -> list[Block]:
    """Return which kinds of kernels take the time, per model and batch size."""
    return _blocks(rows, _kernel_figures)


def _kernel_figures(rows: list[Row]) -> Iterator[Figure]:
    for batch, mine in grouped(rows, lambda row: row.case.batch_size).items():
        order = [row.series for row in mine]
        found = {
            f"{row.case.optimization} {row.series}": known
            for row in sorted(mine, key=lambda row: order.index(row.series))
            if row.measurement.samples and (known := row.measurement.samples[-1].facts.get("kernels"))
        }
        if found:
            title = f"Kernels of {rows[0].group}, batch {batch}"
            cells = {
                (name, kind): Cell(f"{seconds(one['seconds'])} in {one['count']:,.0f}", one["seconds"])
                for name, kinds in found.items()
                for kind, one in kinds.items()
            }
            yield Figure("stack", title, _longest(found), {}, matrix(title, "build", cells))


def _longest(found: Mapping[str, Mapping[str, Any]]) -> str:
    """Say of the build whose kernels take least what takes most of it."""
    sums = {name: sum(one["seconds"] for one in kinds.values()) for name, kinds in found.items()}
    least = min(sums, key=lambda name: sums[name])
    kind, most = max(found[least].items(), key=lambda item: item[1]["seconds"])
    part = f" ({share(most['seconds'] / sums[least])})" if sums[least] else ""
    return f"{least}: kernels take {seconds(sums[least])}, most of it {kind}, {seconds(most['seconds'])}{part}."
