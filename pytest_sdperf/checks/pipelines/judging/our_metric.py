"""What a measurement is judged by: `judge()`, levels, gates and tables loop over metrics and know none by its name."""

from __future__ import annotations

import math
import statistics
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from pytest_sdperf.baselines.stored import Session, StoredCase
from pytest_sdperf.checks.judging.fitness import invalid
from pytest_sdperf.checks.judging.messages import opening, since
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.judging.standing import NO_REPLICATES, Standing
from pytest_sdperf.core.metric import Metric
from pytest_sdperf.core.stats.bounds import predict
from pytest_sdperf.core.units import digits, share
from pytest_sdperf.core.values import Measurement, Sample
from pytest_sdperf.core.values.metric import MetricInfo, Reading
from pytest_sdperf.core.values.outcomes import Outcome, Verdict
from pytest_sdperf.core.values.remark import Remark

# A metric whose own changes count from a large one on has noise as wide.
_WIDEST = 2.0
T = TypeVar("T")
RUNTIME_REPORT, BUILD = "runtime report", "build"


class OurMetric(ABC):
    """A metric that takes its number from what is measured anyway, so that it judges sessions of any age.

    Attributes:
        name: The `metric` of its verdicts.
        leveled: Whether stored sessions judge it, so that a change may be accepted. Else it is right or wrong.
        of_failures: Whether it judges a measurement, too, that ran out of memory.
        table: The table that tells more of a case in which it is not as it should be; empty where all do.
        again: What the same command does about it where it is INCONCLUSIVE; empty where more processes may settle it.
    """

    name: str
    leveled = True
    of_failures = False
    table = RUNTIME_REPORT
    again = ""

    @abstractmethod
    def judge(self, measurement: Measurement, stored: StoredCase | None, *, policy: Policy) -> Verdict | None:
        """Return what it means; None where there is nothing to judge, neither now nor in the baseline."""

    def level(self, stored: StoredCase | None) -> tuple[Session, ...]:
        """Return the stored sessions that say what is normal."""
        return () if stored is None else stored.level(self.name)

    def remark(self, measurement: Measurement) -> Remark | None:
        """Return what is worth saying of it where it judges nothing."""
        return None

    def new(self, sentence: str, obtained: float | None = None) -> Verdict:
        """Return the verdict on what has no baseline yet."""
        return Verdict(Outcome.NEW, "no-baseline", sentence, self.name, obtained)


class OfProcesses(OurMetric, Generic[T]):
    """A metric that each process tells by itself."""

    @abstractmethod
    def extract(self, sample: Sample) -> T | None:
        """Return what a process told; None where it could not."""

    def told(self, samples: Iterable[Sample]) -> list[T]:
        """Return what those processes told that could."""
        return [told for sample in samples if (told := self.extract(sample)) is not None]

    def before(self, stored: StoredCase | None) -> list[list[T]]:
        """Return the same of each stored session; those that tell nothing are left out."""
        return [told for session in self.level(stored) if (told := self.told(session.samples))]


class NumberMetric(OfProcesses[Reading], Metric):
    """A number of each process, and the rule that judges it.

    Attributes:
        codes: HELD, IMPROVED and REGRESSED -> its code.
        later: Whether baselines of the same case may be older: that they lack it is no news, and makes no case NEW.
        said_elsewhere: Whether another verdict says that a process lacks it.
    """

    codes: Mapping[Outcome, str]
    later = False
    said_elsewhere = False

    def why_unknown(self, samples: Iterable[Sample]) -> str:
        """Return why a process has no number; empty where none says so."""
        return ""

    def judge(self, measurement: Measurement, stored: StoredCase | None, *, policy: Policy) -> Verdict | None:
        """Judge it by its rule."""
        now, known, what = self.told(measurement.samples), self.before(stored), opening(measurement.case)
        if len(now) < len(measurement.samples):
            if self.said_elsewhere or not (now or known):
                return None
            told, why = "its baseline has" if known else "other processes have", self.why_unknown(measurement.samples)
            sentence = f"{what} {self.info.title} is missing from a process; {told} it{why and f': {why}'}."
            return invalid("metric-missing", sentence, metric=self.name)
        if not known:
            if self.later and any(session.samples for session in self.level(stored)):
                return None
            typical = _typical(now, self.info)
            sentence = f"{what} {titled(typical, self.info)}{'; that' if typical.words else ''} has no baseline yet."
            return self.new(sentence, typical.value)
        changes = since(stored, measurement.subject)
        if self.info.rule == "interval":
            return self._by_interval(now, known, what=f"{what} {self.info.title}", changes=changes, policy=policy)
        return self._by_all(now, [one for numbers in known for one in numbers], what=what, changes=changes)

    def _by_all(self, now: Sequence[Reading], before: Sequence[Reading], *, what: str, changes: str) -> Verdict:
        """Judge by whether every process lies beyond every stored one, or exactly."""
        info, typical, usual = self.info, _typical(now, self.info), _typical(before, self.info)
        change = typical.value - usual.value
        low, high = (now, before) if change < 0 else (before, now)
        apart = max(one.value for one in low) < min(one.value for one in high)
        counts = abs(change) > (info.smallest_change * abs(usual.value) if info.rule != "exact" else 0.0)
        outcome = self._changed(up=change > 0) if counts and (apart or info.rule == "exact") else Outcome.HELD
        counting = f" (beyond {share(info.smallest_change)} counts)" if info.smallest_change else ""
        counting = " (any difference counts)" if info.rule == "exact" else counting
        compared = f"; its baseline: {_spelled(usual, info)}{counting}{changes if outcome is not Outcome.HELD else ''}"
        if outcome is Outcome.HELD and not counting:
            compared = ", as in its baseline"
        sentence = f"{what} {titled(typical, info)}{compared}."
        return Verdict(outcome, self.codes[outcome], sentence, self.name, typical.value, usual.value)

    def _by_interval(
        self, now: Sequence[Reading], known: Sequence[Sequence[Reading]], *, what: str, changes: str, policy: Policy
    ) -> Verdict:
        """Judge by where the stored sessions let the median of the processes be expected, as latency is."""
        info, before = self.info, [one for numbers in known for one in numbers]
        bad = [one.value for one in (*now, *before) if not 0 < one.value < math.inf]
        if bad:
            sentence = f"{what} {bad[0]:g} cannot be judged by an interval, which is for numbers above 0."
            return invalid("metric-not-positive", sentence, metric=self.name)
        new, stored = ([[one.value for one in numbers] for numbers in numbers_of] for numbers_of in ([now], known))
        interval = predict(stored, new[0], min_effect=info.smallest_change, confidence=1 - policy.error_rate)
        standing = Standing.in_interval(statistics.median(new[0]), interval, len(now) + len(before), self._measured)
        words = standing.compared(_words(now, standing.obtained), _words(before, interval.center))
        compared = f"{what}{':' if now[0].words else ''} {words}"
        outcome, code, tail = Outcome.HELD, "", f" ({standing.held}){changes}"
        if interval.basis == "nothing":
            outcome, code, tail = Outcome.INCONCLUSIVE, "metric-no-replicates", f", but {NO_REPLICATES}"
        elif standing.change > interval.ratio:
            outcome, tail = self._changed(up=standing.ratio > 1), f" ({standing.beyond}){changes}"
        elif noisy := standing.too_noisy(max(policy.widest, _WIDEST * info.smallest_change)):
            outcome, code, tail = Outcome.INCONCLUSIVE, "metric-too-noisy", f", but {noisy}"
        return standing.verdict(outcome, code or self.codes[outcome], f"{compared}{tail}.", self.name)

    def _changed(self, *, up: bool) -> Outcome:
        return Outcome.REGRESSED if up is self.info.less_is_better else Outcome.IMPROVED

    def _measured(self, value: float) -> str:
        return f"{digits(value)} {self.info.unit}".rstrip()


class OfPlugIn(NumberMetric):
    """A metric of a plug-in, by its name and how it is judged: its numbers are stored with the samples."""

    codes = {Outcome.HELD: "metric-as-before", Outcome.IMPROVED: "metric-better", Outcome.REGRESSED: "metric-worse"}

    def __init__(self, name: str, info: MetricInfo) -> None:
        self.name, self.info = name, info

    def extract(self, sample: Sample) -> Reading | None:
        """Return the number that was taken from a sample when it was measured."""
        number = sample.metrics.get(self.name)
        return Reading(number, "") if isinstance(number, (int, float)) else number


def titled(number: Reading, info: MetricInfo) -> str:
    """Return a number of a metric as it is told, behind its title."""
    return f"{info.title}{':' if number.words else ''} {_spelled(number, info)}"


def _spelled(number: Reading, info: MetricInfo) -> str:
    value = number.value
    return number.words or f"{f'{value:,.0f}' if value == int(value) else digits(value)} {info.unit}".rstrip()


def _words(numbers: Iterable[Reading], value: float) -> str:
    """Return the words of the process that is nearest to a number; empty where processes have none."""
    return min(numbers, key=lambda number: abs(number.value - value)).words


def _typical(numbers: Sequence[Reading], info: MetricInfo) -> Reading:
    """Return what stands for several processes: the worst of what does not vary, else the median.

    Words are those of one process: of an even number of processes that of the larger two in the middle.
    """
    ordered = sorted(numbers, key=lambda number: number.value)
    if info.rule == "exact":
        return ordered[-1 if info.less_is_better else 0]
    middle = ordered[len(ordered) // 2]
    return middle if middle.words else Reading(statistics.median(one.value for one in ordered), "")
