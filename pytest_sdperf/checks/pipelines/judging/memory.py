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
from collections.abc import Callable, Sequence

from pytest_sdperf.baselines.stored import Session, StoredCase
from pytest_sdperf.checks.judging.fitness import invalid
from pytest_sdperf.checks.judging.messages import component, opening, since
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.core.units import above_or_below, megabytes, plural, share
from pytest_sdperf.core.values import Measurement, Sample
from pytest_sdperf.core.values.outcomes import Outcome, Verdict

Peak = Callable[[Sample], int | None]

ALLOCATOR = "allocator-memory"
DRAWN = "memory-may-be-drawn"
# A draw that the baseline has seen is a regression where all processes would make it less often than this.
_CHANCE = 0.01
METRICS: dict[str, Peak] = {
    "first-run-memory": lambda sample: sample.first_run_bytes,
    "second-run-memory": lambda sample: sample.second_run_bytes,
    ALLOCATOR: lambda sample: sample.peaks_bytes.get("allocator", {}).get("second_run"),
}


def judge_memory(measurement: Measurement, stored: StoredCase | None, metric: str, *, policy: Policy) -> Verdict | None:
    """Judge one of the peaks.

    Returns:
        None where it cannot be told, neither now nor in the baseline: by a CPU machine, or by an engine's allocator.
    """
    peak, what = METRICS[metric], f"{opening(measurement.case)} {spelled(metric)}"
    values = [peak(sample) for sample in measurement.samples]
    before = _sessions(stored, metric)
    known_before = any(peak(sample) is not None for session in before for sample in session.samples)
    if all(value is None for value in values) and not known_before and (policy.on_cpu or metric == ALLOCATOR):
        return None
    if any(value is None or value <= 0 for value in values):
        bad = next(value for value in values if value is None or value <= 0)
        told = "is missing from a sample" if bad is None else f"of {bad} bytes cannot be"
        return invalid("memory-missing", f"{what} {told}.", metric=metric)
    obtained = min(value for value in values if value is not None)
    if not known_before:
        reach = policy.memory_reach(obtained, source_of(measurement.samples[0], metric))
        others = more_than(obtained + reach, [value for value in values if value is not None])
        sentence = f"{what} {megabytes(obtained)} has no baseline yet{others}."
        return Verdict(Outcome.NEW, "no-baseline", sentence, metric, obtained)
    return _against(measurement, before, metric, obtained=obtained, policy=policy)


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


def spelled(metric: str) -> str:
    """Return what a metric is called in a sentence."""
    return metric.replace("-run-", "-run ").replace("-memory", " memory")


def source_of(sample: Sample, metric: str) -> str:
    """Return who told a peak: `device`, `host` or `allocator`."""
    return "allocator" if metric == ALLOCATOR else sample.memory_source


def _sessions(stored: StoredCase | None, metric: str) -> tuple[Session, ...]:
    """Return the sessions of a level; of allocator memory only those in which the engine told it."""
    level = [session for session in stored.level(metric) if session.samples] if stored is not None else []
    if metric == ALLOCATOR:
        level = [one for one in level if any(METRICS[metric](sample) is not None for sample in one.samples)]
    return tuple(level)


def _against(
    measurement: Measurement, before: Sequence[Session], metric: str, *, obtained: float, policy: Policy
) -> Verdict:
    peak, what = METRICS[metric], f"{opening(measurement.case)} {spelled(metric)}"
    stored = [[peak(sample) for sample in session.samples] for session in before]
    if any(value is None or value <= 0 for values in stored for value in values):
        of = f"{component(measurement.case.component)} {spelled(metric)}"
        return invalid("baseline-unusable", f"The baseline of {of} has a sample without it.", metric=metric)
    sources = sorted({source_of(sample, metric) for session in before for sample in session.samples})
    source = source_of(measurement.samples[0], metric)
    if sources != sorted({source_of(sample, metric) for sample in measurement.samples}):
        told = (
            f"{source or 'unknown'} memory now and {' and '.join(name or 'unknown' for name in sources)} memory before"
        )
        return invalid("memory-source-changed", f"{what} cannot be compared: it is {told}.", metric=metric)
    expected = statistics.median(min(value for value in values if value is not None) for values in stored)
    effect = policy.memory_change(source)
    reach = policy.memory_reach(expected, source)
    low, high = expected - reach, expected + reach
    compared = (
        f"{what} {megabytes(obtained)} is {above_or_below(obtained / expected)} its baseline of {megabytes(expected)}"
    )
    changes = since(before[-1], measurement.subject)
    drawn = ""
    if obtained > high:
        outcome, code, held = Outcome.REGRESSED, "memory-above-limit", f"held up to {megabytes(high)}"
        known = [value for values in stored for value in values if value is not None]
        drew, now = sum(value >= obtained - reach for value in known), len(measurement.samples)
        chance = chance_of_all(now, drew=drew, of=len(known))
        if drew and chance >= _CHANCE:
            outcome, code = Outcome.INCONCLUSIVE, DRAWN
            drawn = (
                f"; {drew} of {plural(len(known), 'process', 'processes')} of the baseline took that much too, so that "
                f"{f'all {now} do' if now > 1 else 'this one does'} can be chance ({share(chance)})"
            )
    elif obtained < low:
        outcome, code, held = Outcome.IMPROVED, "memory-below-limit", f"held down to {megabytes(low)}"
    else:
        outcome, code, held = Outcome.HELD, "memory-inside-limit", f"held up to {megabytes(high)}"
    others = more_than(high, [peak(sample) or 0 for sample in measurement.samples])
    sentence = f"{compared} ({held}, {share(effect)} of {source or 'unknown'} memory){others}{drawn}{changes}."
    return Verdict(outcome, code, sentence, metric, obtained, expected, low, high)
