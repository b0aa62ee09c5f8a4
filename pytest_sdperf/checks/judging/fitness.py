"""Was the machine fit to be judged, and did the run give what was asked for? If not, the verdict is INVALID."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from pytest_sdperf.baselines.stored import DRIVER, StoredCase
from pytest_sdperf.checks.judging.messages import capital, component, opening
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.core.components import PIPELINE
from pytest_sdperf.core.machine.health import clocks_locked
from pytest_sdperf.core.units import digits, plural, seconds
from pytest_sdperf.core.values import Failure, Measurement, Sample
from pytest_sdperf.core.values.outcomes import Outcome, Verdict

Differences = Mapping[str, tuple[Any, Any]]

DRIVER_CHANGED = "driver-changed"
TAIL_LINES = 5


def unfit(
    measurement: Measurement, stored: StoredCase | None, *, policy: Policy, differences: Differences
) -> Verdict | None:
    """Return why a measurement cannot be judged; None if it can."""
    if measurement.health:
        return machine_not_fit(measurement.health)
    if differences:
        return _other_machine(differences)
    failure = measurement.failure
    if failure is not None and not measurement.out_of_memory:
        return ended(failure)
    clocks = _other_clocks(measurement, stored)
    if clocks is not None:
        return clocks
    if measurement.out_of_memory or not measurement.case.engine:
        return None
    return next(_sample_problems(measurement, stored, policy=policy), None)


def ended(failure: Failure, *, metric: str = "measurement") -> Verdict:
    """Return the verdict on a worker that gave no answer."""
    said = f"{capital(failure.message.rstrip('.'))}."
    if failure.reason == "refused":
        return invalid("refused", said, metric=metric)
    tail = "\n".join(failure.tail.strip().splitlines()[-TAIL_LINES:])
    quoted = f" Its last words:\n{tail}" if tail else " It wrote nothing to stderr."
    return invalid(f"worker-{failure.reason}", f"{said}{quoted}", metric=metric)


def no_memory(message: str, *, metric: str) -> Verdict:
    """Return the verdict on a comparison that memory ran out in: what fits is judged where it is measured."""
    return Verdict(Outcome.INCONCLUSIVE, "out-of-memory", f"Memory ran out, so nothing was compared: {message}", metric)


def machine_not_fit(reasons: tuple[str, ...], *, metric: str = "measurement") -> Verdict:
    """Return the verdict on what was measured while the machine was not fit for it."""
    return invalid("machine-not-fit", f"The machine was not fit to be measured: {_joined(reasons)}.", metric=metric)


def invalid(code: str, sentence: str, *, metric: str = "measurement") -> Verdict:
    """Return an INVALID verdict."""
    return Verdict(Outcome.INVALID, code, sentence, metric)


def _joined(reasons: tuple[str, ...]) -> str:
    return "; ".join(reason.rstrip(".") for reason in reasons)


def _other_machine(differences: Differences) -> Verdict:
    listed = ", ".join(f"{key} was {_told(old)} and is {_told(new)}" for key, (old, new) in sorted(differences.items()))
    if set(differences) == {DRIVER}:
        return invalid(
            DRIVER_CHANGED,
            f"The baseline was recorded under another driver: {listed}; a driver is not what is tested. To start anew "
            f'under this one, type: sdperf baselines accept --re-anchor --reason="new driver".',
        )
    return invalid("machine-changed", f"The baseline was recorded on another machine: {listed}.")


def _other_clocks(measurement: Measurement, stored: StoredCase | None) -> Verdict | None:
    """A card whose clocks were locked, or let go, is another one; no key of the machine can tell."""
    now = clocks_locked(measurement.readings)
    known = (session.clocks_locked for session in reversed(stored.sessions if stored is not None else ()))
    then = next((one for one in known if one is not None), None)
    if now is None or then is None or now == then:
        return None
    are, were = ("locked", "free") if now else ("free", "locked")
    command = "let them go (sudo nvidia-smi -rgc)" if now else "lock them as they were (sudo nvidia-smi -lgc MHZ,MHZ)"
    return invalid(
        "clocks-changed",
        f"The clocks of the GPU are {are} now and were {were} when the baseline was recorded, so the times cannot be "
        f"compared. Either {command} and measure again, `sdperf doctor` prints the commands for this card; or move the "
        f"baseline away and record every case with {are} clocks.",
    )


def _told(value: Any) -> str:
    return "not known" if value is None else str(value)


def _sample_problems(measurement: Measurement, stored: StoredCase | None, *, policy: Policy) -> Iterator[Verdict]:
    what, samples = component(measurement.case.component), measurement.samples
    if len(samples) < max(policy.processes, 1):
        yield invalid(
            "samples-missing",
            f"{opening(measurement.case)} was measured by {plural(len(samples), 'process', 'processes')} instead of "
            f"{max(policy.processes, 1)}.",
        )
    watched = dict.fromkeys(name for sample in samples for name in sample.facts.get("instrumented", ()))
    if watched:
        yield invalid(
            "instrumented",
            f"{opening(measurement.case)} was measured while its code was watched by {', '.join(watched)}, which takes "
            f"time and memory. Start pytest without it; coverage reaches no process that measures where [run] has no "
            f"`patch = subprocess` and COVERAGE_PROCESS_START is not set.",
        )
    for number, sample in enumerate(samples, 1):
        if not sample.iterations_s:
            yield invalid("latency-missing", f"Process {number} of {len(samples)} timed no {what} run.")
        bad = [time for time in sample.iterations_s if not (math.isfinite(time) and time > 0)]
        if bad:
            yield invalid(
                "latency-not-positive",
                f"Process {number} of {len(samples)} reported a {what} time of {bad[0]:g} s, which no run can take.",
            )
    yield from _call_problems(measurement, stored)
    yield from _floor_problems(measurement)


def _floor_problems(measurement: Measurement) -> Iterator[Verdict]:
    """A time that no device of this kind can reach is an error of the measurement, not a record."""
    floor = measurement.floor
    times = [sample.median_s for sample in measurement.samples if sample.iterations_s]
    if floor is None or not times or min(times) >= floor.bound_s:
        return
    yield invalid(
        "below-floor",
        f"{opening(measurement.case)} latency {seconds(min(times))} is below the physical floor of "
        f"{seconds(floor.bound_s)}: this device cannot do {digits(floor.flops / 1e12)} TFLOP and read "
        f"{digits(floor.bytes / 1e9)} GB in less. Likely causes: fewer steps than asked for, guidance left out, "
        f"outputs taken from a cache, a lower precision than named, or times taken before the device had finished.",
    )


def _call_problems(measurement: Measurement, stored: StoredCase | None) -> Iterator[Verdict]:
    """A pipeline that calls its UNet more or less often does other work, so its times cannot be compared."""
    if measurement.case.component != PIPELINE:
        return
    calls = sorted({sample.unet_calls for sample in measurement.samples})
    if calls[0] < 1:
        yield invalid("unet-calls-missing", "The UNet calls of the pipeline were not counted.")
    if len(calls) > 1:
        yield invalid("unet-calls-differ", f"Processes made {_numbers(calls)} UNet calls for the same request.")
    before = sorted({sample.unet_calls for sample in _stored_samples(stored)})
    if before and before != calls:
        yield invalid(
            "unet-calls-changed",
            f"The pipeline made {_numbers(calls)} UNet calls; its baseline made {_numbers(before)}, so it is not the "
            f"same work.",
        )


def _stored_samples(stored: StoredCase | None) -> tuple[Sample, ...]:
    return stored.last.samples if stored is not None and stored.sessions else ()


def _numbers(values: list[int]) -> str:
    return " and ".join(map(str, values))
