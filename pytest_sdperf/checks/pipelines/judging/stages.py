"""Which stage of a whole request took the time by which it became slower or faster?"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pytest_sdperf.baselines.stored import Session
from pytest_sdperf.checks.pipelines.judging.apportioned import apportioned
from pytest_sdperf.core.components import BETWEEN
from pytest_sdperf.core.units import plural, seconds
from pytest_sdperf.core.values import Measurement, Sample


@dataclass(frozen=True)
class Stage:
    """One component in one request, or what is between all of them.

    Attributes:
        calls: How often it is called.
        whole_s: Seconds of all its calls.
        call_s: Seconds of its middle call.
        slowest_s: Seconds of its slowest call.
    """

    calls: int
    whole_s: float
    call_s: float
    slowest_s: float


def stages_of(samples: Iterable[Sample]) -> Mapping[str, Stage]:
    """Return the stages of a request in their order, what is between them last; empty where nobody watched.

    Of several processes each number is the middle one.
    """
    seen = [found for sample in samples if (found := sample.facts.get("stages_s"))]
    names = dict.fromkeys(name for found in seen for name, calls in found.items() if calls)
    order = sorted(names, key=lambda name: name == BETWEEN)
    return {name: _stage([found[name] for found in seen if found.get(name)]) for name in order}


def stage_changes(measurement: Measurement, stored: Sequence[Session]) -> tuple[str, ...]:
    """Return one line: which stages take the change of a latency, and which are as before.

    Args:
        measurement: What is judged.
        stored: The sessions that it is compared with.

    Returns:
        Nothing where nobody watched a request, now or before, or where the watched ones did not change as the latency.
    """
    now = stages_of(measurement.samples)
    known = [found for session in stored if (found := stages_of(session.samples))]
    if not now or not known:
        return ()
    names = sorted(
        dict.fromkeys([*now, *(name for found in known for name in found)]), key=lambda name: name == BETWEEN
    )
    takes = _seconds(now)
    parts = apportioned(names, takes, [_seconds(found) for found in known])
    if parts.whole * _latency_change(measurement, stored) <= 0 or not parts.named:
        return ()
    told = [
        f"{told_of(name)} {_time(parts.before[name])} -> {_time(takes.get(name, 0.0))}{_calls(now, known, name)}"
        for name in parts.named
    ]
    rest = [told_of(name) for name in names if name not in parts.named]
    return (f"in one watched request {', '.join(told)}{'; as before: ' if rest else ''}{', '.join(rest)}",)


def _latency_change(measurement: Measurement, stored: Sequence[Session]) -> float:
    medians = [statistics.median(sample.median_s for sample in one.samples) for one in stored if one.samples]
    return measurement.latency_s - statistics.median(medians)


def told_of(name: str) -> str:
    """Return how a stage is called."""
    return "scheduler and guidance" if name == BETWEEN else name


def _stage(each: Sequence[Sequence[float]]) -> Stage:
    return Stage(
        calls=round(statistics.median(len(calls) for calls in each)),
        whole_s=statistics.median(sum(calls) for calls in each),
        call_s=statistics.median(statistics.median(calls) for calls in each),
        slowest_s=statistics.median(max(calls) for calls in each),
    )


def _seconds(found: Mapping[str, Stage]) -> Mapping[str, float]:
    return {name: stage.whole_s for name, stage in found.items()}


def _time(value: float) -> str:
    return seconds(value) if value else "none"


def _calls(now: Mapping[str, Stage], known: Sequence[Mapping[str, Stage]], name: str) -> str:
    """Say where a stage is called more or less often than before."""
    before = round(statistics.median(found[name].calls if name in found else 0 for found in known))
    calls = now[name].calls if name in now else 0
    return f" ({plural(calls, 'call')}, before {before})" if before and calls and calls != before else ""
