"""The report of a self-test: how often the rules were wrong, what they found, and what has to be so."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence

from pytest_sdperf.checks.ab.pairs import label
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.reporting.line import Line, labelled, wrapped
from pytest_sdperf.core.units import plural, seconds, share
from pytest_sdperf.plugin.selftest.comparisons import PAIRS, RULES, JudgingRule
from pytest_sdperf.plugin.selftest.records import RuleCounts, SelfTests
from pytest_sdperf.plugin.selftest.rows import not_injected

_HEADINGS = ("rule", "slowdown", "comparisons", "found", "rate", "95 % interval", "processes")


def selftest_lines(tested: SelfTests, *, device: str, policy: Policy, width: int) -> Iterator[Line]:
    """Yield the report over all runs of a case's self-test.

    Args:
        tested: The runs, with their rows.
        device: Name and slug.
        policy: How they were judged.
        width: Columns of the terminal.
    """
    yield from _about(tested, device, width=width)
    yield Line()
    if not tested.rows:
        yield from wrapped(_NONE_YET.format(PAIRS.most(policy)), width=width)
        return
    by_rule = {rule: [row for row in tested.rows if row.rule == rule.name] for rule in RULES}
    cells = [_cells(rule.title, row) for rule, rows in by_rule.items() for row in rows]
    yield from map(Line, table(_HEADINGS, cells))
    yield from wrapped(_INDEPENDENT, width=width)
    yield Line()
    for rule, rows in by_rule.items():
        goal = goal_of(rule)[1]
        sure = [row.effect for row in rows if row.effect and row.rate.interval[0] >= goal]
        text = f"smallest slowdown surely found in {share(goal)} by {rule.title}: "
        if rows:
            yield from wrapped(text + (f"+{share(min(sure))}" if sure else "none yet"), width=width, rest="  ")


def _cells(title: str, row: RuleCounts) -> Sequence[str]:
    """Return a row of the table."""
    low, high = row.rate.interval
    return (
        "" if row.effect else f"{title}, from {share(row.limit)}",
        f"+{share(row.effect)}" if row.effect else "none",
        str(row.comparisons),
        str(row.found),
        share(row.rate.share),
        f"{100 * low:.1f} to {100 * high:.1f} %",
        str(row.processes),
    )


_INDEPENDENT = (
    "found: B was called slower; without a slowdown it was called slower or faster, which is a false alarm. No two "
    "comparisons of a row share a process. Rows share processes with each other, and comparisons of one run its day."
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
    yield from labelled("noise", _noise(tested), width=width)


def _latency(tested: SelfTests) -> str:
    times = tested.runs[-1].plain_s
    of = "" if len(tested.runs) == 1 else " of the last run"
    middle = seconds(statistics.median(times)) if times else "not known"
    return f"{middle}, median of {plural(len(times), 'process', 'processes')}{of}"


def _injected(tested: SelfTests) -> str:
    """Say by how much calls were really made longer."""
    parts = []
    for name in tested.runs[-1].obtained:
        shares = [value for run in tested.runs for value in run.obtained.get(name, ()) if value is not None]
        parts.append(f"+{share(float(name))} was {_range(shares, '.2f')}")
    missing = not_injected(tested.runs)
    told = f"; {plural(missing, 'injection')} did not happen as asked for, and serve no comparison" if missing else ""
    return ", ".join(parts) + told


def _noise(tested: SelfTests) -> str:
    """Say how far the processes of a run are from its middle."""
    times = [run.plain_s for run in tested.runs if len(run.plain_s) > 1]
    if not times:
        return "not known from one process"
    apart = [math.log(time / statistics.geometric_mean(of_run)) for of_run in times for time in of_run]
    spread = math.sqrt(math.fsum(one**2 for one in apart) / (len(apart) - len(times)))
    return f"standard deviation of processes {_spread(spread)} (the farthest {_spread(max(map(abs, apart)))})"


def _range(shares: Sequence[float], spelled: str) -> str:
    """Return the least and the largest of some shares in percent; one number where both read alike."""
    low, high = (f"{100 * value:{spelled}}" for value in (min(shares), max(shares)))
    return f"{low} %" if low == high else f"{low} to {high} %"


def _spread(value: float) -> str:
    return f"{100 * value:.2f} %"


# Slowdown, and the share of comparisons in which it has to be found: in pairs, and by a baseline. Of a GPU only.
GOALS = {True: (0.03, 0.99), False: (0.05, 0.95)}


def goal_of(rule: JudgingRule) -> tuple[float, float]:
    """Return a slowdown and the share of comparisons in which a rule has to find it on a GPU."""
    return GOALS[rule == PAIRS]


def shortfalls(rows: Sequence[RuleCounts], *, policy: Policy) -> Iterator[str]:
    """Yield a sentence for every rule with a false alarm, and for every goal that is surely not reached.

    Args:
        rows: Of all runs of the self-test.
        policy: How they were judged.
    """
    for rule in RULES:
        found, (effect, goal) = {row.effect: row for row in rows if row.rule == rule.name}, goal_of(rule)
        same, slowed = found.get(0.0), found.get(effect)
        if same is not None and same.found:
            yield (
                f"{plural(same.found, 'false alarm')} in {plural(same.comparisons, 'comparison')} of one build with "
                f"itself ({rule.title}, changes from {share(same.limit)} on)."
            )
        if slowed is None or policy.on_cpu or slowed.rate.interval[1] >= goal:
            continue
        yield (
            f"A slowdown of {share(effect)} was found in {slowed.found} of {plural(slowed.comparisons, 'comparison')} "
            f"({rule.title}): with 95 % confidence in {share(slowed.rate.interval[1])} of all at most, and "
            f"{share(goal)} is the goal."
        )
