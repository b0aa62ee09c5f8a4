"""Metrics of plug-ins: their numbers are taken from each sample, stored with it, and judged by the rule they name."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Iterator, Sequence
from typing import Any

from pytest_sdperf.baselines.stored import StoredCase
from pytest_sdperf.checks.judging.fitness import invalid
from pytest_sdperf.checks.judging.messages import opening, since
from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.errors import WorkerError
from pytest_sdperf.core.units import digits, share
from pytest_sdperf.core.values import Measurement, Sample
from pytest_sdperf.core.values.metric import MetricInfo
from pytest_sdperf.core.values.outcomes import Outcome, Verdict


def with_metrics(sample: Sample, catalog: Catalog) -> Sample:
    """Return a sample with the number that each registered metric takes from it.

    Raises:
        WorkerError: A metric raised, or gave no finite number.
    """
    found: dict[str, float] = {}
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
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise WorkerError(
                f"{where} gave {value!r}. Allowed: a finite number, or None where a process has none.", reason="error"
            )
        found[name] = float(value)
    return dataclasses.replace(sample, metrics=found)


def with_unit(value: float, info: MetricInfo) -> str:
    """Return a number of a metric as it is printed."""
    return " ".join(filter(None, [f"{value:,.0f}" if value == int(value) else digits(value), info.unit]))


def judge_metrics(measurement: Measurement, stored: StoredCase | None) -> Iterator[Verdict]:
    """Judge every metric that a process, or the baseline, has a number of."""
    for name, info in measurement.metrics.items():
        level = [session for session in stored.level(name) if session.samples] if stored is not None else []
        before = [sample.metrics[name] for session in level for sample in session.samples if name in sample.metrics]
        now = [sample.metrics[name] for sample in measurement.samples if name in sample.metrics]
        what = f"{opening(measurement.case)} {info.title}"
        if len(now) < len(measurement.samples):
            if now or before:
                told = "its baseline has it" if before else "other processes have it"
                yield invalid("metric-missing", f"{what} is missing from a process; {told}.", metric=name)
            continue
        typical = _typical(now, info)
        if not before:
            sentence = f"{what} {with_unit(typical, info)} has no baseline yet."
            yield Verdict(Outcome.NEW, "no-baseline", sentence, name, typical)
            continue
        expected = _typical(before, info)
        outcome, code = _direction(now, before, info)
        compared = f"{what} {with_unit(typical, info)}; its baseline: {with_unit(expected, info)}"
        held = "any difference counts" if info.rule == "exact" else f"beyond {share(info.smallest_change)} counts"
        changes = "" if outcome is Outcome.HELD else since(level[-1], measurement.subject)
        yield Verdict(outcome, code, f"{compared} ({held}){changes}.", name, typical, expected)


def _typical(values: Sequence[float], info: MetricInfo) -> float:
    """Return the number that stands for several processes: the worst of what does not vary, else the median."""
    if info.rule == "exact":
        return max(values) if info.less_is_better else min(values)
    return statistics.median(values)


def _direction(now: Sequence[float], before: Sequence[float], info: MetricInfo) -> tuple[Outcome, str]:
    obtained, expected = _typical(now, info), _typical(before, info)
    if info.rule == "exact":
        larger, smaller = obtained > expected, obtained < expected
    else:
        reach = info.smallest_change * abs(expected)
        larger = min(now) > max(before) and obtained - expected > reach
        smaller = max(now) < min(before) and expected - obtained > reach
    if not larger and not smaller:
        return Outcome.HELD, "metric-as-before"
    worse = larger is info.less_is_better
    return (Outcome.REGRESSED, "metric-worse") if worse else (Outcome.IMPROVED, "metric-better")
