"""Comparisons of a self-test: which slowdowns processes time, which comparisons they serve, and what comes of them.

Within a row no process serves two comparisons, so they are independent as far as processes are, and only they are
counted. The rows share processes with each other. A comparison begins only where all the processes are left that it may
come to need: one that was cut off would count for those that end early.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Iterator, Sequence

from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.core.values import Case, Sample
from pytest_sdperf.plugin.selftest.comparisons import RULES, Judged, JudgingRule, found_in
from pytest_sdperf.plugin.selftest.records import RuleCounts, SelfTestRun, SelfTests, key_of

# An injection counts if the calls were really made longer by this much of what was asked for, at least and at most.
NEARLY = (0.9, 1.1)
# What a clock and an empty wait cost, as a share of a call.
CLOCKS = 0.001


@dataclasses.dataclass
class Stream:
    """The processes of a run that timed one slowdown, in their order; each is taken once.

    Attributes:
        samples: Of each process, that of its calls as they are, and slowed.
        place: The next one.
    """

    samples: Sequence[tuple[Sample, Sample]]
    place: int = 0

    @property
    def left(self) -> int:
        """Processes that nothing took yet."""
        return len(self.samples) - self.place

    def take(self, *, slowed: bool) -> Sample:
        """Take the next process."""
        self.place += 1
        return self.samples[self.place - 1][slowed]

    def session(self, count: int) -> list[Sample]:
        """Take processes for a stored session."""
        return [self.take(slowed=False) for _ in range(count)]


def was_injected(asked: float, obtained: float) -> bool:
    """Whether calls were made longer by about as much as was asked for."""
    return NEARLY[0] * asked <= obtained <= NEARLY[1] * asked + CLOCKS


def stream_of(run: SelfTestRun, effect: float) -> Stream:
    """Return the processes of a run that serve a slowdown; where it was not injected they serve nothing."""
    plain = _samples(run, "0")
    if not effect:
        return Stream([(one, one) for one in plain if one is not None])
    slowed, obtained = _samples(run, key_of(effect)), run.obtained.get(key_of(effect), ())
    return Stream(
        [
            (before, after)
            for before, after, share in zip(plain, slowed, obtained, strict=False)
            if before is not None and after is not None and share is not None and was_injected(effect, share)
        ]
    )


def _samples(run: SelfTestRun, name: str) -> list[Sample | None]:
    """Return the sample of each process at a slowdown; None where it timed others."""
    medians, waited = run.medians_s.get(name, ()), run.waited.get(name, ())
    known = itertools.zip_longest(medians, waited)
    return [
        None if median is None else Sample((median,), facts={} if share is None else {"waited": share})
        for median, share in known
    ]


def not_injected(runs: Sequence[SelfTestRun]) -> int:
    """Return how many slowdowns were asked for and not obtained."""
    return sum(
        share is not None and not was_injected(float(name), share)
        for run in runs
        for name, shares in run.obtained.items()
        for share in shares
    )


def comparisons(
    rule: JudgingRule, runs: Sequence[SelfTestRun], effect: float, case: Case, *, policy: Policy
) -> Iterator[tuple[Judged, int]]:
    """Yield every comparison that runs allow, with the processes that it took, those of its baseline included.

    Args:
        rule: How they are judged.
        runs: Of one machine, oldest first.
        effect: Slowdown that was injected into what is judged; 0 for none.
        case: What ran.
        policy: How strictly.
    """
    streams = [stream_of(run, effect) for run in runs]
    if rule.other_runs:
        groups = [
            (streams[number - rule.stored : number], streams[number]) for number in range(rule.stored, len(streams))
        ]
    else:
        groups = [([stream] * rule.stored, stream) for stream in streams]
    going_on = True
    while going_on:
        going_on = False
        for baseline, new in groups:
            inside = 0 if rule.other_runs else rule.stored * policy.processes
            if new.left < rule.most(policy) + inside or any(one.left < policy.processes for one in baseline):
                continue
            going_on = True
            stored = iter([one.session(policy.processes) for one in baseline])
            judged = rule.judge(stored.__next__, new.take, case, policy=policy)
            yield judged, judged.processes + rule.stored * policy.processes


def rows_of(tested: SelfTests, *, policy: Policy) -> tuple[RuleCounts, ...]:
    """Return what every rule makes of every slowdown."""
    rows = []
    for rule in RULES:
        runs = _of_one_build(tested.runs) if rule.other_runs else tested.runs
        for effect in (0.0, *effects(on_cpu=policy.on_cpu)):
            found = list(comparisons(rule, runs, effect, tested.case, policy=policy))
            if found:
                rows.append(_row(rule, policy.latency_effect, effect, found))
    return tuple(rows)


def _row(rule: JudgingRule, limit: float, effect: float, found: Sequence[tuple[Judged, int]]) -> RuleCounts:
    outcomes = collections.Counter(judged.outcome for judged, _ in found)
    return RuleCounts(
        rule=rule.name,
        limit=limit,
        effect=effect,
        comparisons=len(found),
        found=found_in(outcomes, effect),
        processes=sum(processes for _, processes in found),
    )


def _of_one_build(runs: Sequence[SelfTestRun]) -> list[SelfTestRun]:
    """Return the runs of what ran last: another version may really be slower."""
    last = runs[-1]
    return [one for one in runs if (one.subject, one.builds) == (last.subject, last.builds)]


EFFECTS = (0.02, 0.03, 0.05, 0.10)
# On a CPU no smaller change fails (`Policy.cpu_min_effect`), so no smaller one can be found.
CPU_EFFECTS = (0.50, 1.00)


def effects(*, on_cpu: bool) -> tuple[float, ...]:
    """Return the slowdowns that are injected on a kind of device, smallest first."""
    return CPU_EFFECTS if on_cpu else EFFECTS


def slowdowns(number: int, *, on_cpu: bool) -> tuple[float, ...]:
    """Return what the process with this number times: its calls as they are (0) and made slower, in this order.

    A fresh process costs more than some calls, so each times every slowdown; the order moves on from process to
    process, so that none of them is always the first or the last.
    """
    every = (0.0, *effects(on_cpu=on_cpu))
    start = number % len(every)
    return every[start:] + every[:start]
