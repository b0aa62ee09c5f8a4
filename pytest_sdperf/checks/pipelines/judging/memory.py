"""Does it need as much memory as it did?

The peak of one process is almost free of noise, so its limit is a plain tolerance. From process to process it jumps: a
library that searches for its fastest algorithm takes whatever workspace the winner of the day wants, and an arena that
grows in powers of two then asks for one block more, or not. Such a draw only ever adds, so a measurement is judged by
the process that took least, and what the others took is said. Where even that one took more, it is still no regression
as long as all of them may have drawn what some processes of the baseline did.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence

from pytest_sdperf.baselines.stored import StoredCase
from pytest_sdperf.checks.judging.fitness import invalid
from pytest_sdperf.checks.judging.messages import component, opening, since
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.judging.standing import Standing
from pytest_sdperf.checks.pipelines.judging.our_metric import OfProcesses
from pytest_sdperf.core.units import megabytes, plural, share
from pytest_sdperf.core.values import Measurement, Sample
from pytest_sdperf.core.values.outcomes import Outcome, Verdict

DRAWN = "memory-may-be-drawn"
# A draw that the baseline has seen is a regression where all processes would make it less often than this.
_CHANCE = 0.01


class Peak(OfProcesses[int]):
    """One of the peaks of memory, in bytes.

    Args:
        name: Of the metric.
        peak: Returns it; None where the machine, or the engine, cannot tell.
        of: What tells it, where that is always the same: an engine's allocator, which need not tell it.
    """

    table = ""

    def __init__(self, name: str, peak: Callable[[Sample], int | None], *, of: str = "") -> None:
        self.name, self._peak, self.of = name, peak, of
        self.title = name.replace("-run-", "-run ").replace("-memory", " memory")

    def extract(self, sample: Sample) -> int | None:
        """Return the peak of a process."""
        return self._peak(sample)

    def source_of(self, sample: Sample) -> str:
        """Return who told a peak: `device`, `host` or `allocator`."""
        return self.of or sample.memory_source

    def judge(self, measurement: Measurement, stored: StoredCase | None, *, policy: Policy) -> Verdict | None:
        """Judge it; None where it cannot be told, neither now nor in the baseline."""
        samples, what = measurement.samples, f"{opening(measurement.case)} {self.title}"
        now, before = self.told(samples), self.before(stored)
        if not (now or before) and (policy.on_cpu or self.of):
            return None
        if len(now) < len(samples) or min(now) <= 0:
            told = "is missing from a sample" if len(now) < len(samples) else f"of {min(now)} bytes cannot be"
            return invalid("memory-missing", f"{what} {told}.", metric=self.name)
        obtained, source = min(now), self.source_of(samples[0])
        if not before:
            others = more_than(obtained + policy.memory_reach(obtained, source), now)
            return self.new(f"{what} {megabytes(obtained)} has no baseline yet{others}.", obtained)
        known = [sample for session in self.level(stored) if self.told(session.samples) for sample in session.samples]
        drawn = self.told(known)
        if len(drawn) < len(known) or min(drawn) <= 0:
            of = f"{component(measurement.case.component)} {self.title}"
            return invalid("baseline-unusable", f"The baseline of {of} has a sample without it.", metric=self.name)
        sources, of_now = ({self.source_of(sample) for sample in some} for some in (known, samples))
        if sources != of_now:
            earlier = " and ".join(name or "unknown" for name in sorted(sources))
            told = f"{source or 'unknown'} memory now and {earlier} memory before"
            return invalid("memory-source-changed", f"{what} cannot be compared: it is {told}.", metric=self.name)
        expected = statistics.median(map(min, before))
        reach, effect = policy.memory_reach(expected, source), share(policy.memory_change(source))
        by = f", {effect} of {source or 'unknown'} memory"
        standing = Standing(obtained, expected, expected - reach, expected + reach, megabytes, by)
        outcome, code, held, chance = Outcome.HELD, "memory-inside-limit", standing.held, ""
        if obtained < standing.low:
            outcome, code, held = Outcome.IMPROVED, "memory-below-limit", standing.beyond
        elif obtained > standing.high:
            outcome, code = Outcome.REGRESSED, "memory-above-limit"
            chance = _chance(len(now), drew=sum(value >= obtained - reach for value in drawn), of=len(drawn))
            if chance:
                outcome, code = Outcome.INCONCLUSIVE, DRAWN
        compared = f"{what} {standing.compared()} ({held}){more_than(standing.high, now)}{chance}"
        return standing.verdict(outcome, code, f"{compared}{since(stored, measurement.subject)}.", self.name)


_ALLOCATOR = "allocator"
PEAKS: Mapping[str, Peak] = {
    peak.name: peak
    for peak in (
        Peak("first-run-memory", lambda sample: sample.first_run_bytes),
        Peak("second-run-memory", lambda sample: sample.second_run_bytes),
        Peak(
            "allocator-memory", lambda sample: sample.peaks_bytes.get(_ALLOCATOR, {}).get("second_run"), of=_ALLOCATOR
        ),
    )
}


def _chance(processes: int, *, drew: int, of: int) -> str:
    """Say that all processes may have drawn what some of the baseline did; empty where that is no chance."""
    chance = chance_of_all(processes, drew=drew, of=of)
    if not drew or chance < _CHANCE:
        return ""
    do = f"all {processes} do" if processes > 1 else "this one does"
    took = f"{drew} of {plural(of, 'process', 'processes')} of the baseline took that much too"
    return f"; {took}, so that {do} can be chance ({share(chance)})"


def chance_of_all(processes: int, *, drew: int, of: int) -> float:
    """Return the chance that so many processes all draw what `drew` of `of` did, by Laplace's rule for each in turn."""
    return math.prod((drew + 1 + number) / (of + 2 + number) for number in range(processes))


def beyond_least(peaks: Sequence[int], source: str, *, policy: Policy) -> list[int]:
    """Return the peaks of processes, in bytes, that are above the least of them by more than counts as no change."""
    limit = min(peaks) + policy.memory_reach(min(peaks), source) if peaks else 0.0
    return [peak for peak in peaks if peak > limit]


def more_than(limit: float, values: Sequence[int]) -> str:
    """Return what is to be said of processes that took more than a limit; nothing where none did, or all."""
    more = [value for value in values if value > limit]
    if len(more) in (0, len(values)):
        return ""
    return f"; {len(more)} of {plural(len(values), 'process', 'processes')} took up to {megabytes(max(more))}"
