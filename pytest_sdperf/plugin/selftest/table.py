"""The report of a self-test: how often the rules were wrong, what they found, and what they would find."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterable, Iterator, Sequence

from pytest_sdperf.checks.ab.pairs import label
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.reporting.line import Line, labelled, wrapped
from pytest_sdperf.core.units import plural, seconds, share
from pytest_sdperf.plugin.selftest.comparisons import PAIRS, RULES, JudgingRule
from pytest_sdperf.plugin.selftest.findings import GOALS, goal_of, seen_from, shown_from
from pytest_sdperf.plugin.selftest.limits import InForce, next_effect, shown_by
from pytest_sdperf.plugin.selftest.noise import MeasuredNoise, measured_noise
from pytest_sdperf.plugin.selftest.power import Simulation
from pytest_sdperf.plugin.selftest.rates import needed
from pytest_sdperf.plugin.selftest.records import RuleCounts, SelfTests
from pytest_sdperf.plugin.selftest.rows import not_injected
from pytest_sdperf.plugin.selftest.schedule import effects

_HEADINGS = ("rule", "slowdown", "comparisons", "found", "rate", "95 % interval", "processes", "simulated")
_LIMITS = ("changes from", "rule", "false alarms", "95 % interval", "slowdown", "found", "95 % interval")
_DASH = "-"


def selftest_lines(tested: SelfTests, *, device: str, in_force: InForce, width: int) -> Iterator[Line]:
    """Yield the report over all runs of a case's self-test.

    Args:
        tested: The runs, with their rows.
        device: Name and slug.
        in_force: How users' runs were judged until now.
        width: Columns of the terminal.
    """
    yield from _about(tested, device, width=width)
    times = [run.plain_s for run in tested.runs]
    if max(map(len, times)) < 3:
        yield Line("fewer than three processes: nothing can be said")
        return
    noise = measured_noise(times)
    yield from labelled("noise", _noise(noise), width=width)
    yield Line()
    rules = [_Ruled(rule, tested, noise, in_force) for rule in RULES]
    yield from map(Line, table(_HEADINGS, [cells for rule in rules for cells in rule.cells()]))
    if not tested.rows:
        yield from wrapped(_NONE_YET.format(PAIRS.most(in_force.pairs)), width=width)
    yield from wrapped(_INDEPENDENT, width=width)
    yield Line()
    for text in filter(None, (rule.detectable() for rule in rules)):
        yield from wrapped(text, width=width, rest="  ")
    if in_force.stored.on_cpu:
        yield Line()
        yield from _limits(tested, width=width)
    if tested.rows:
        yield Line()
        yield from labelled("next", _next(tested, runs_known=noise.sessions > 1), width=width)


class _Ruled:
    """One rule with what was measured of it, and the simulation of it with the measured noise."""

    def __init__(self, rule: JudgingRule, tested: SelfTests, noise: MeasuredNoise, in_force: InForce) -> None:
        self._rule, self._policy = rule, in_force.of(rule)
        self._rows = in_force.rows(rule, tested.rows)
        # Runs that are compared with themselves share their level; of other ones it has to be known how they differ.
        drawn = noise if rule.other_runs else dataclasses.replace(noise, day=0.0)
        known = noise.sessions > 1 or not rule.other_runs
        self._simulation = Simulation(drawn, tested.case, self._policy) if known else None

    def cells(self) -> Iterator[Sequence[str]]:
        """Yield a row of the table for each slowdown that was measured, or can be simulated."""
        name = f"{self._rule.title}, from {share(self._policy.latency_effect)}"
        for effect in (0.0, *effects(on_cpu=self._policy.on_cpu)):
            row = self._rows.get(effect)
            if row is None and self._simulation is None:
                continue
            measured = (_DASH,) * 5 if row is None else _measured(row)
            drawn = _DASH if self._simulation is None else share(self._simulation.rate(self._rule, effect).share)
            yield name if not effect else "", f"+{share(effect)}" if effect else "none", *measured, drawn

    def detectable(self) -> str:
        """Say which slowdown is found as often as it should be; empty where nothing tells."""
        _, goal = goal_of(self._rule)
        if self._simulation is None:
            return ""
        drawn = self._simulation.detectable(self._rule, goal)
        by_drawing = "none" if drawn is None else f"+{share(drawn)}"
        measured = _found(list(self._rows.values()), goal)
        return f"smallest slowdown found in {share(goal)} by {self._rule.title}: {measured}; {by_drawing} by simulation"


def _found(rows: Sequence[RuleCounts], goal: float) -> str:
    """Say from which slowdown on a rule was surely right as often as it should be, or that nobody can tell yet."""
    shown = shown_from(rows, goal)
    if shown is not None:
        return f"+{share(shown.effect)} of those injected"
    largest = max(rows, key=lambda row: row.effect, default=None)
    if largest is None or not largest.effect:
        return "no comparison yet"
    if largest.rate.interval[1] < goal:
        return "none of those injected"
    told = seen_from(rows, goal) or largest
    return f"too few comparisons to tell (+{share(told.effect)} in {told.found} of {told.comparisons})"


_INDEPENDENT = (
    "found: B was called slower; without a slowdown it was called slower or faster, which is a false alarm. No two "
    "comparisons of a row share a process. Rows share processes with each other, and comparisons of one run its day. "
    "simulated: the share found among times that are drawn from the measured noise."
)
_NONE_YET = (
    "No comparison yet: one begins only where all processes are left that it may need, and in pairs these are {} of "
    "one run."
)


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield a table in Markdown, its columns of equal width."""
    cells = [tuple(headings), *map(tuple, rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for number, row in enumerate(cells):
        yield f"| {' | '.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))} |"
        if not number:
            yield f"|{'|'.join('-' * (width + 2) for width in widths)}|"


def _about(tested: SelfTests, device: str, *, width: int) -> Iterator[Line]:
    case, last = tested.case, tested.runs[-1]
    yield from labelled("device", device, width=width)
    what = f"{case.model} {case.component}, {label(case)}, batch {case.batch_size}, {case.height}x{case.width}"
    yield from labelled("case", what, width=width)
    yield from labelled("subject", ", ".join(f"{name} {value}" for name, value in last.subject.items()), width=width)
    days = len({run.date[:10] for run in tested.runs})
    counts = ", ".join(str(run.processes) for run in tested.runs)
    processes = sum(run.processes for run in tested.runs)
    runs = f"{plural(len(tested.runs), 'run')} on {plural(days, 'day')}: {counts} processes"
    yield from labelled("runs", runs if len(tested.runs) == 1 else f"{runs}, {processes} in all", width=width)
    yield from labelled("latency", _latency(tested), width=width)
    yield from labelled("injected", _injected(tested), width=width)


def _latency(tested: SelfTests) -> str:
    times = tested.runs[-1].plain_s
    of = "" if len(tested.runs) == 1 else " of the last run"
    middle = seconds(statistics.median(times)) if times else "not known"
    return f"{middle}, median of {plural(len(times), 'process', 'processes')}{of}"


def _next(tested: SelfTests, *, runs_known: bool) -> str:
    """Say what as many processes again would add, and how many comparisons it takes to show the goals."""
    processes, every = tested.runs[-1].processes, sum(run.processes for run in tested.runs)
    added = [round(row.comparisons * processes / every) for row in tested.rows]
    few, many = min(added), max(added)
    goals = " and ".join(f"{needed(goal)} of {needed(goal)} to show {share(goal)}" for _, goal in GOALS.values())
    another = "" if runs_known else "; runs of several days tell how days differ"
    return (
        f"the same command goes on where this run ended. {plural(processes, 'process', 'processes')} more add about "
        f"{few if few == many else f'{few} to {many}'} comparisons to a row, and it takes {goals}{another}"
    )


def _injected(tested: SelfTests) -> str:
    """Say by how much calls were really made longer."""
    parts = []
    for name in tested.runs[-1].obtained:
        shares = [value for run in tested.runs for value in run.obtained.get(name, ()) if value is not None]
        parts.append(f"+{share(float(name))} was {_range(shares, '.2f')}")
    missing = not_injected(tested.runs)
    told = f"; {plural(missing, 'injection')} did not happen as asked for, and serve no comparison" if missing else ""
    return ", ".join(parts) + told


def _noise(noise: MeasuredNoise) -> str:
    farthest = max(map(abs, noise.residuals))
    days = f"runs {_spread(noise.day)}" if noise.sessions > 1 else "runs not known from one of them"
    return (
        f"standard deviation of processes {_spread(noise.process)} (the farthest {_spread(farthest)}), {days}; drift "
        f"over 24 processes {_range(noise.drifts, '+.2f')}"
    )


def _range(shares: Sequence[float], spelled: str) -> str:
    """Return the least and the largest of some shares in percent; one number where both read alike."""
    low, high = (f"{100 * value:{spelled}}" for value in (min(shares), max(shares)))
    return f"{low} %" if low == high else f"{low} to {high} %"


def _spread(value: float) -> str:
    return f"{100 * value:.2f} %"


def _measured(row: RuleCounts) -> tuple[str, str, str, str, str]:
    return str(row.comparisons), str(row.found), share(row.rate.share), _interval(row), str(row.processes)


def _interval(row: RuleCounts) -> str:
    low, high = row.rate.interval
    return f"{100 * low:.1f} to {100 * high:.1f} %"


def _limits(tested: SelfTests, *, width: int) -> Iterator[Line]:
    """Yield, for a CPU, what would be so at each limit, and which one holds from now on."""
    rows = tested.rows
    places = {(row.limit, row.rule, row.effect): row for row in rows}
    cells = []
    for limit in sorted({row.limit for row in rows}, reverse=True):
        for rule in RULES:
            same, slowed = (places.get((limit, rule.name, effect)) for effect in (0.0, next_effect(limit)))
            if same is not None and slowed is not None:
                alarms, found = (f"{row.found} of {row.comparisons}" for row in (same, slowed))
                told = (share(limit), rule.title, alarms, _interval(same))
                cells.append((*told, f"+{share(slowed.effect)}", found, _interval(slowed)))
    yield from map(Line, table(_LIMITS, cells) if cells else ())
    for pairs, what in ((True, PAIRS.title), (False, "stored sessions")):
        one = shown_by(tested, pairs=pairs)
        if one is None:
            text = f"{what}: only changes above {share(Policy().cpu_min_effect)} fail; no lower limit is shown yet"
        else:
            text = f"{what}: changes above {share(one.limit)} fail: {one.text}"
        yield from wrapped(text, width=width, rest="  ")
