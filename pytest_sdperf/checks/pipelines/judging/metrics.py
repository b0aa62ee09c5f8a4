"""Metrics: one number of each sample, judged by the rule that the metric names.

Those of plug-ins are stored with the sample; ours are taken from what it tells, in sessions of any age.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pytest_sdperf.baselines.stored import StoredCase
from pytest_sdperf.checks.judging.fitness import invalid
from pytest_sdperf.checks.judging.messages import opening, since
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.judging.standing import NO_REPLICATES, Standing
from pytest_sdperf.checks.pipelines.judging.energy import Energy
from pytest_sdperf.checks.pipelines.judging.host_waits import HostWaits
from pytest_sdperf.checks.pipelines.judging.our_metric import OurMetric
from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.errors import WorkerError
from pytest_sdperf.core.stats.bounds import predict
from pytest_sdperf.core.units import digits, share
from pytest_sdperf.core.values import Measurement, Sample
from pytest_sdperf.core.values.metric import MetricInfo, Number, Reading
from pytest_sdperf.core.values.outcomes import Outcome, Verdict

# Who judges, stores levels and reports has the names from here, not from a catalog: `sdperf gate` has none.
OURS: Mapping[str, OurMetric] = {metric.name: metric for metric in (HostWaits(), Energy())}
_OF_PLUG_INS = {Outcome.HELD: "metric-as-before", Outcome.IMPROVED: "metric-better", Outcome.REGRESSED: "metric-worse"}
# A metric whose own changes count from a large one on has noise as wide.
_WIDEST = 2.0


def with_metrics(sample: Sample, catalog: Catalog) -> Sample:
    """Return a sample with the number that each registered metric takes from it.

    Raises:
        WorkerError: A metric raised, or gave no finite number.
    """
    found: dict[str, Number] = {}
    for name, metric in catalog.metrics.items().items():
        where = f"the metric {name!r} of {catalog.metrics.owner(name).module}"
        try:
            value: Any = metric.extract(sample)
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            raise WorkerError(
                f"{where} cannot read a sample: {what}. Correct its `extract`.", reason="error"
            ) from error
        if value is None:
            continue
        told, words = (value.value, value.words) if isinstance(value, Reading) else (value, "")
        number = isinstance(told, (int, float)) and not isinstance(told, bool) and math.isfinite(told)
        if not number or not isinstance(words, str):
            raise WorkerError(
                f"{where} gave {value!r}. Allowed: a finite number, or None where a process has none.", reason="error"
            )
        found[name] = Reading(float(told), words) if isinstance(value, Reading) else float(told)
    return dataclasses.replace(sample, metrics=found)


def titled(number: Number, info: MetricInfo) -> str:
    """Return a number of a metric as it is told, behind its title."""
    return f"{info.title}{':' if isinstance(number, Reading) else ''} {_spelled(number, info)}"


def judge_metrics(measurement: Measurement, stored: StoredCase | None, *, policy: Policy) -> Iterator[Verdict]:
    """Judge every metric, ours or of a plug-in, that a process or the baseline has a number of."""
    ours = {name: metric.info for name, metric in OURS.items()}
    for name, info in {**ours, **measurement.metrics}.items():
        mine = OURS.get(name)
        level = [session for session in stored.level(name) if session.samples] if stored is not None else []
        before = [numbers for session in level if (numbers := _numbers(name, session.samples))]
        now = _numbers(name, measurement.samples)
        if len(now) < len(measurement.samples):
            if (now or before) and not (mine and mine.said_elsewhere):
                yield _missing(measurement, name, info, stored=bool(before))
        elif not before:
            if not (level and mine and mine.later):
                typical = _typical(now, info)
                that = "; that" if isinstance(typical, Reading) else ""
                sentence = f"{opening(measurement.case)} {titled(typical, info)}{that} has no baseline yet."
                yield Verdict(Outcome.NEW, "no-baseline", sentence, name, _value(typical))
        else:
            one = _Judged(name, info, opening(measurement.case), since(level[-1], measurement.subject))
            yield one.by_interval(now, before, policy=policy) if info.rule == "interval" else one.by_all(now, before)


def _missing(measurement: Measurement, name: str, info: MetricInfo, *, stored: bool) -> Verdict:
    what = f"{opening(measurement.case)} {info.title} is missing from a process"
    told = "its baseline has it" if stored else "other processes have it"
    why = OURS[name].why_unknown(measurement.samples) if name in OURS else ""
    return invalid("metric-missing", f"{what}; {told}{why and f': {why}'}.", metric=name)


@dataclasses.dataclass(frozen=True)
class _Judged:
    """A metric of a case, and what has changed since its baseline."""

    name: str
    info: MetricInfo
    opening: str
    since: str

    def by_all(self, now: Sequence[Number], sessions: Sequence[Sequence[Number]]) -> Verdict:
        """Judge by whether every process lies beyond every stored one, or exactly."""
        info, before = self.info, [number for numbers in sessions for number in numbers]
        typical, usual, outcome = _typical(now, info), _typical(before, info), _direction(now, before, info)
        counting = f" (beyond {share(info.smallest_change)} counts)" if info.smallest_change else ""
        counting = " (any difference counts)" if info.rule == "exact" else counting
        compared = f"; its baseline: {_spelled(usual, info)}{counting}"
        if outcome is not Outcome.HELD:
            compared += self.since
        elif not counting:
            compared = ", as in its baseline"
        sentence = f"{self.opening} {titled(typical, info)}{compared}."
        return Verdict(outcome, self._code(outcome), sentence, self.name, _value(typical), _value(usual))

    def by_interval(self, now: Sequence[Number], sessions: Sequence[Sequence[Number]], *, policy: Policy) -> Verdict:
        """Judge by where the stored sessions let the median of the processes be expected, as latency is."""
        info, what = self.info, f"{self.opening} {self.info.title}"
        before = [number for numbers in sessions for number in numbers]
        bad = [value for value in map(_value, (*now, *before)) if not 0 < value < math.inf]
        if bad:
            sentence = f"{what} {bad[0]:g} cannot be judged by an interval, which is for numbers above 0."
            return invalid("metric-not-positive", sentence, metric=self.name)
        new, stored = [_value(number) for number in now], [[_value(one) for one in numbers] for numbers in sessions]
        interval = predict(stored, new, min_effect=info.smallest_change, confidence=1 - policy.error_rate)
        standing = Standing(statistics.median(new), interval, len(now) + len(before), self._measured)
        words = standing.compared(_words(now, standing.obtained), _words(before, interval.center))
        compared = f"{what}{':' if isinstance(now[0], Reading) else ''} {words}"

        def verdict(outcome: Outcome, code: str, sentence: str) -> Verdict:
            ends = standing.ends(1.0)
            return Verdict(outcome, code, sentence, self.name, standing.obtained, interval.center, *ends)

        if interval.basis == "nothing":
            return verdict(Outcome.INCONCLUSIVE, "metric-no-replicates", f"{compared}, but {NO_REPLICATES}.")
        if standing.change > interval.ratio:
            worse = (standing.ratio > 1) is info.less_is_better
            outcome = Outcome.REGRESSED if worse else Outcome.IMPROVED
            return verdict(outcome, self._code(outcome), f"{compared} ({standing.beyond}){self.since}.")
        if noisy := standing.too_noisy(max(policy.widest, _WIDEST * info.smallest_change)):
            return verdict(Outcome.INCONCLUSIVE, "metric-too-noisy", f"{compared}, but {noisy}.")
        return verdict(Outcome.HELD, self._code(Outcome.HELD), f"{compared} ({standing.held}){self.since}.")

    def _measured(self, value: float) -> str:
        return f"{digits(value)} {self.info.unit}".rstrip()

    def _code(self, outcome: Outcome) -> str:
        return (OURS[self.name].codes if self.name in OURS else _OF_PLUG_INS)[outcome]


def _numbers(name: str, samples: Iterable[Sample]) -> list[Number]:
    """Return the numbers of the processes that have one."""
    found = (OURS[name].extract(sample) if name in OURS else sample.metrics.get(name) for sample in samples)
    return [number for number in found if number is not None]


def _value(number: Number) -> float:
    return number.value if isinstance(number, Reading) else number


def _spelled(number: Number, info: MetricInfo) -> str:
    if isinstance(number, Reading):
        return number.words
    return " ".join(filter(None, [f"{number:,.0f}" if number == int(number) else digits(number), info.unit]))


def _words(numbers: Iterable[Number], value: float) -> str:
    """Return the words of the process that is nearest to a number; empty where processes have none."""
    nearest = min(numbers, key=lambda number: abs(_value(number) - value))
    return nearest.words if isinstance(nearest, Reading) else ""


def _typical(numbers: Sequence[Number], info: MetricInfo) -> Number:
    """Return what stands for several processes: the worst of what does not vary, else the median.

    Words are those of one process: of an even number of processes that of the larger two in the middle.
    """
    ordered = sorted(numbers, key=_value)
    if info.rule == "exact":
        return ordered[-1 if info.less_is_better else 0]
    return ordered[len(ordered) // 2] if isinstance(ordered[0], Reading) else statistics.median(map(_value, ordered))


def _direction(now: Sequence[Number], before: Sequence[Number], info: MetricInfo) -> Outcome:
    usual = _value(_typical(before, info))
    change = _value(_typical(now, info)) - usual
    counts = change != 0
    if info.rule != "exact":
        low, high = (now, before) if change < 0 else (before, now)
        apart = max(map(_value, low)) < min(map(_value, high))
        counts = apart and abs(change) > info.smallest_change * abs(usual)
    if not counts:
        return Outcome.HELD
    return Outcome.REGRESSED if (change > 0) is info.less_is_better else Outcome.IMPROVED
