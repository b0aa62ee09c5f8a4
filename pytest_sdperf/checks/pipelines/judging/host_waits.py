"""Does the host wait for its GPU more often than it did? Each time the GPU runs dry, and kernels look no slower."""

from __future__ import annotations

from pytest_sdperf.checks.pipelines.judging.our_metric import NumberMetric
from pytest_sdperf.core.units import digits, plural
from pytest_sdperf.core.values import Sample
from pytest_sdperf.core.values.metric import MetricInfo, Reading
from pytest_sdperf.core.values.outcomes import Outcome


class HostWaits(NumberMetric):
    """Synchronizations and copies to the host in a call, or per UNet call of a request.

    Counts of one program hardly vary, so any change counts in which every process lies beyond every stored one.
    """

    name = "host-waits"
    info = MetricInfo("makes the host wait for its GPU", smallest_change=0.0)
    codes = {Outcome.HELD: "waits-as-before", Outcome.IMPROVED: "fewer-waits", Outcome.REGRESSED: "more-waits"}
    said_elsewhere = True  # by the verdict on kernels

    def extract(self, sample: Sample) -> Reading | None:
        """Return what one process saw: `102 synchronizations and 51 copies to the host in 51 UNet calls, 3.00 ...`."""
        found = sample.facts.get("host_waits")
        if not found:
            return None
        waits, copies, calls = found["synchronizations"], found["copies"], found.get("unet_calls", 0)
        rate, where = (waits + copies) / max(calls, 1), f"in {plural(calls, 'UNet call')}" if calls else "in a call"
        if not rate:
            return Reading(rate, f"no synchronization and no copy to the host {where}")
        copied = plural(copies, "copy to the host", "copies to the host")
        each = f", {digits(rate)} per call" if calls else ""
        return Reading(rate, f"{plural(waits, 'synchronization')} and {copied} {where}{each}")
