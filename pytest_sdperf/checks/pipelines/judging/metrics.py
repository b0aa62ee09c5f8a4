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
from pytest_sdperf.checks.pipelines.judging.host_waits import HostWaits
from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.errors import WorkerError
from pytest_sdperf.core.metric import Metric
from pytest_sdperf.core.units import digits, share
from pytest_sdperf.core.values import Measurement, Sample
from pytest_sdperf.core.values.metric import MetricInfo, Number, Reading
from pytest_sdperf.core.values.outcomes import Outcome, Verdict

# Who judges, stores levels and reports has the names from here, not from a catalog: `sdperf gate` has none.
OURS: Mapping[str, Metric] = {metric.name: metric for metric in (HostWaits(),)}
_OF_PLUG_INS = {Outcome.HELD: "metric-as-before", Outcome.IMPROVED: "metric-better", Outcome.REGRESSED: "metric-worse"}
_CODES = {
    HostWaits.name: {Outcome.HELD: "waits-as-before", Outcome.IMPROVED: "fewer-waits", Outcome.REGRESSED: "more-waits"}
}


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


def judge_metrics(measurement: Measurement, stored: StoredCase | None) -> Iterator[Verdict]:
    """Judge every metric, ours or of a plug-in, that a process or the baseline has a number of."""
    ours = {name: metric.info for name, metric in OURS.items()}
    for name, info in {**ours, **measurement.metrics}.items():
        level = [session for session in stored.level(name) if session.samples] if stored is not None else []
        before = _numbers(name, [sample for session in level for sample in session.samples])
        now = _numbers(name, measurement.samples)
        if len(now) < len(measurement.samples):
            if (now or before) and name not in OURS:  # what ours lack, the verdict on kernels says
                what = f"{opening(measurement.case)} {info.title} is missing from a process"
                told = "its baseline has it" if before else "other processes have it"
                yield invalid("metric-missing", f"{what}; {told}.", metric=name)
            continue
        typical = _typical(now, info)
        what, obtained = f"{opening(measurement.case)} {titled(typical, info)}", _value(typical)
        if not before:
            that = "; that" if isinstance(typical, Reading) else ""
            yield Verdict(Outcome.NEW, "no-baseline", f"{what}{that} has no baseline yet.", name, obtained)
            continue
        usual, outcome = _typical(before, info), _direction(now, before, info)
        counting = f" (beyond {share(info.smallest_change)} counts)" if info.smallest_change else ""
        counting = " (any difference counts)" if info.rule == "exact" else counting
        compared = f"; its baseline: {_spelled(usual, info)}{counting}"
        if outcome is not Outcome.HELD:
            compared += since(level[-1], measurement.subject)
        elif not counting:
            compared = ", as in its baseline"
        code = _CODES.get(name, _OF_PLUG_INS)[outcome]
        yield Verdict(outcome, code, f"{what}{compared}.", name, obtained, _value(usual))


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
