"""Does a compiler of graphs (TensorRT, MIGraphX) still take as much of a graph, in as few pieces?"""

from __future__ import annotations

from collections.abc import Iterable

from pytest_sdperf.baselines.stored import StoredCase
from pytest_sdperf.checks.judging.fitness import invalid
from pytest_sdperf.checks.judging.messages import component, opening, since
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.pipelines.judging.our_metric import OurMetric
from pytest_sdperf.checks.pipelines.judging.runtime_report import parts_of
from pytest_sdperf.core.units import plural
from pytest_sdperf.core.values import Measurement, Sample
from pytest_sdperf.core.values.facts import Partitions
from pytest_sdperf.core.values.outcomes import Outcome, Verdict


class Parts(OurMetric):
    """Engines and nodes on the CPU, judged exactly: they do not vary."""

    name = "partitions"

    def judge(self, measurement: Measurement, stored: StoredCase | None, *, policy: Policy) -> Verdict | None:
        """Judge each component by itself; None where the engine makes no partitions."""
        case = measurement.case
        stored_samples = [sample for session in self.level(stored) for sample in session.samples]
        now, before = (_most(samples, case.component) for samples in (measurement.samples, stored_samples))
        lost, new = ([name for name in one if name not in other] for one, other in ((before, now), (now, before)))
        if lost:
            of = f" of the {_listed(lost)} graph" if now else ""
            sentence = f"{opening(case)} partitions{of} are not known; its baseline has them."
            return invalid("partitions-missing", sentence, metric=self.name)
        if not now:
            return None
        changed = {name: before[name] for name, one in now.items() if name in before and before[name] != one}
        texts = [f"{component(name)} graph runs as {_told(one)}" for name, one in now.items()]
        texts += [f"in its baseline the {component(name)} graph runs as {_told(one)}" for name, one in changed.items()]
        unknown = f"; of the {_listed(new)} graph nothing is stored yet" if new and before else ""
        sentence = f"The {'; '.join(texts)}{unknown}"
        if not before:
            return self.new(f"{sentence}, which has no baseline yet.")
        if not changed and unknown:
            return self.new(f"{sentence}.")
        if not changed:
            return Verdict(Outcome.HELD, "partitions-as-before", f"{sentence}, as in its baseline.", self.name)
        worse = any(now[name][what] > one[what] for name, one in changed.items() for what in ("engines", "cpu_nodes"))
        outcome, code = (Outcome.REGRESSED, "more-partitions") if worse else (Outcome.IMPROVED, "fewer-partitions")
        return Verdict(outcome, code, f"{sentence}{since(stored, measurement.subject)}.", self.name)


def _listed(names: list[str]) -> str:
    return " and the ".join(map(component, names))


def _told(one: Partitions) -> str:
    return f"{plural(one['engines'], 'engine')} and {plural(one['cpu_nodes'], 'node')} on the CPU"


def _most(samples: Iterable[Sample], name: str) -> dict[str, Partitions]:
    """Return the largest numbers of several processes; none where no compiler of graphs was asked for."""
    found: dict[str, list[Partitions]] = {}
    for sample in samples:
        for part, facts in parts_of(sample, name).items():
            if "partitions" in facts:
                found.setdefault(part, []).append(facts["partitions"])
    return {
        part: {"engines": max(one["engines"] for one in ones), "cpu_nodes": max(one["cpu_nodes"] for one in ones)}
        for part, ones in found.items()
    }
