"""Does a call take more energy than it did? A card that draws more for the same answer is no faster and costs more."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_sdperf.checks.pipelines.judging.our_metric import NumberMetric
from pytest_sdperf.core.units import digits
from pytest_sdperf.core.values import Sample
from pytest_sdperf.core.values.metric import MetricInfo, Reading
from pytest_sdperf.core.values.outcomes import Outcome


class Energy(NumberMetric):
    """Joules of a call, of the whole card: its memory, its fans as far as it counts them, and what it draws idle."""

    name = "energy"
    info = MetricInfo("energy", unit="J", rule="interval", smallest_change=0.05)
    codes = {Outcome.HELD: "energy-as-before", Outcome.IMPROVED: "less-energy", Outcome.REGRESSED: "more-energy"}
    later = True

    def extract(self, sample: Sample) -> Reading | None:
        """Return what one process saw: `12.3 J per call at 610 W`, `410 J per request, 103 J per image, at 640 W`."""
        found = sample.facts.get("energy", {})
        if "joules_per_call" not in found:
            return None
        joules, watts, images = found["joules_per_call"], digits(found["watts"]), found.get("images")
        if not images:
            return Reading(joules, f"{digits(joules)} J per call at {watts} W")
        return Reading(joules, f"{digits(joules)} J per request, {digits(joules / images)} J per image, at {watts} W")

    def why_unknown(self, samples: Iterable[Sample]) -> str:
        """Return what the device did not tell; empty where none says so, as on a CPU and in older versions."""
        return next((why for one in samples if (why := one.facts.get("energy_not_available", ""))), "")
