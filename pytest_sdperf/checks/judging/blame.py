"""Which kernels took the time by which a case became slower or faster?"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence

from pytest_sdperf.baselines.stored import Session
from pytest_sdperf.checks.pipelines.judging.apportioned import apportioned
from pytest_sdperf.core.units import seconds
from pytest_sdperf.core.values import Measurement, Sample

_MOST = 3
_IDLE = "between kernels the GPU idles"
_LONGEST_NAME = 100


def kernel_changes(measurement: Measurement, stored: Sequence[Session]) -> tuple[str, ...]:
    """Return what kinds of kernels took before and take now, where that makes up the change of a latency.

    Args:
        measurement: What is judged.
        stored: The sessions that it is compared with.

    Returns:
        A line per kind that matters; none where nobody saw kernels, now or before.
    """
    everything = [*measurement.samples, *(sample for session in stored for sample in session.samples)]
    # Kernels that run side by side take longer together than the call, so idling is told by when the GPU was busy.
    busy = all(sample.facts.get("gpu_busy_s") for sample in everything if sample.facts.get("kernels"))
    now = _by_kind(measurement.samples, busy=busy)
    known = [found for session in stored if (found := _by_kind(session.samples, busy=busy))]
    if not now or not known:
        return ()
    names = {name for session in stored for name in _slowest(session.samples)}
    kinds = dict.fromkeys([*now, *(kind for found in known for kind in found)])
    parts = apportioned(kinds, now, known)
    return tuple(
        f"{_what(kind)} {_time(now.get(kind, 0.0))}, before {_time(parts.before[kind])}{_new(measurement, kind, names)}"
        for kind in parts.named[:_MOST]
    )


def _what(kind: str) -> str:
    return kind if kind == _IDLE else f"{kind} kernels take"


def _time(value: float) -> str:
    return seconds(value) if value else "none"


def _new(measurement: Measurement, kind: str, names: set[str]) -> str:
    """Name the slowest kernel of a kind that was not among the slowest before."""
    slowest = _slowest(measurement.samples)
    found = next((name for name, of in slowest.items() if of == kind and name not in names), "")
    return f"; among the slowest is now {found[:_LONGEST_NAME]}" if found and names else ""


def _slowest(samples: Iterable[Sample]) -> Mapping[str, str]:
    """Return name -> kind of the slowest kernels that any process saw."""
    return {one["name"]: one["kind"] for sample in samples for one in sample.facts.get("kernels_slowest", ())}


def _by_kind(samples: Sequence[Sample], *, busy: bool) -> Mapping[str, float]:
    """Return kind -> seconds of one call, and the time of a call that no kernel takes; empty where nobody saw any.

    Args:
        samples: Of one session.
        busy: Whether every process knows how long the GPU was busy; kernels are added up otherwise.
    """
    seen = [sample for sample in samples if sample.facts.get("kernels")]
    if not seen:
        return {}
    each = [sample.facts["kernels"] for sample in seen]
    found = {
        kind: statistics.median(one[kind]["seconds"] if kind in one else 0.0 for one in each)
        for kind in dict.fromkeys(kind for one in each for kind in one)
    }
    latency = statistics.median(sample.median_s for sample in samples)
    known = [one for sample in seen if (one := sample.facts.get("gpu_busy_s"))]
    busy_s = statistics.median(known) if busy else sum(found.values())
    return {**found, _IDLE: max(0.0, latency - busy_s)}
