"""Does the host wait for its GPU more often than it did? Each time the GPU runs dry, and kernels look no slower."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pytest_sdperf.baselines.stored import StoredCase
from pytest_sdperf.checks.judging.messages import opening, since
from pytest_sdperf.core.units import digits, plural
from pytest_sdperf.core.values import Measurement, Sample
from pytest_sdperf.core.values.outcomes import Outcome, Verdict

METRIC = "host-waits"


@dataclass(frozen=True)
class HostWaits:
    """What one call, or one request, made the host wait for.

    Attributes:
        synchronizations: Times at which the host waited for the device.
        copies: Copies from the device to the host.
        unet_calls: UNet calls of the request; 0 for a component alone.
    """

    synchronizations: int
    copies: int
    unet_calls: int = 0

    @property
    def rate(self) -> float:
        """Both together, per UNet call or per call of a component."""
        return (self.synchronizations + self.copies) / max(self.unet_calls, 1)

    @property
    def told(self) -> str:
        """What there was: `102 synchronizations and 51 copies to the host in 51 UNet calls, 3.00 per call`."""
        if not self.rate:
            where = f"in {plural(self.unet_calls, 'UNet call')}" if self.unet_calls else "in a call"
            return f"no synchronization and no copy to the host {where}"
        what = f"{plural(self.synchronizations, 'synchronization')} and "
        what += plural(self.copies, "copy to the host", "copies to the host")
        if not self.unet_calls:
            return f"{what} in a call"
        return f"{what} in {plural(self.unet_calls, 'UNet call')}, {digits(self.rate)} per call"


def host_waits_of(sample: Sample) -> HostWaits | None:
    """Return what one process saw; None where nothing could tell."""
    found = sample.facts.get("host_waits")
    return HostWaits(found["synchronizations"], found["copies"], found.get("unet_calls", 0)) if found else None


def judge_host_waits(measurement: Measurement, stored: StoredCase | None) -> Verdict | None:
    """Judge how often the host waits; None where that is not known now (the kernels' verdict says what is missing).

    Counts of one program hardly vary; so every process has to lie beyond every stored one of the level.
    """
    now = [found for sample in measurement.samples if (found := host_waits_of(sample))]
    if not now or len(now) < len(measurement.samples):
        return None
    level = [session for session in stored.level(METRIC) if session.samples] if stored is not None else []
    before = [found for session in level for sample in session.samples if (found := host_waits_of(sample))]
    middle = _middle(now)
    what = f"{opening(measurement.case)} makes the host wait for its GPU: {middle.told}"
    if not before:
        return Verdict(Outcome.NEW, "no-baseline", f"{what}; that has no baseline yet.", METRIC, middle.rate)
    usual = _middle(before)
    if min(one.rate for one in now) > max(one.rate for one in before):
        outcome, code = Outcome.REGRESSED, "more-waits"
    elif max(one.rate for one in now) < min(one.rate for one in before):
        outcome, code = Outcome.IMPROVED, "fewer-waits"
    else:
        return Verdict(Outcome.HELD, "waits-as-before", f"{what}, as in its baseline.", METRIC, middle.rate, usual.rate)
    changes = since(level[-1], measurement.subject)
    return Verdict(outcome, code, f"{what}; its baseline: {usual.told}{changes}.", METRIC, middle.rate, usual.rate)


def _middle(found: Iterable[HostWaits]) -> HostWaits:
    """Return the one in the middle; of an even number the larger of the two."""
    ordered = sorted(found, key=lambda one: one.rate)
    return ordered[len(ordered) // 2]
