"""Does a compiler of graphs (TensorRT, MIGraphX) still take as much of a graph, in as few pieces?"""

from __future__ import annotations

from pytest_sdperf.baselines.stored import StoredCase
from pytest_sdperf.checks.judging.fitness import invalid
from pytest_sdperf.checks.judging.messages import component, opening, since
from pytest_sdperf.checks.pipelines.judging.runtime_report import parts_of
from pytest_sdperf.core.units import plural
from pytest_sdperf.core.values import Measurement, Sample
from pytest_sdperf.core.values.facts import Partitions
from pytest_sdperf.core.values.outcomes import Outcome, Verdict

METRIC = "partitions"


def partitions_of(sample: Sample, name: str) -> dict[str, Partitions]:
    """Return `engines` and `cpu_nodes` of each component; empty where no compiler of graphs was asked for."""
    parts = parts_of(sample, name)
    return {name: facts["partitions"] for name, facts in parts.items() if "partitions" in facts}


def judge_partitions(measurement: Measurement, stored: StoredCase | None) -> Verdict | None:
    """Judge engines and nodes on the CPU, exactly: they do not vary. None where the engine makes no partitions."""
    case = measurement.case
    now = _most([partitions_of(sample, case.component) for sample in measurement.samples])
    level = [session for session in stored.level(METRIC) if session.samples] if stored is not None else []
    before = _most([partitions_of(sample, case.component) for session in level for sample in session.samples])
    lost, new = ([name for name in one if name not in other] for one, other in ((before, now), (now, before)))
    if lost:
        of = f" of the {_listed(lost)} graph" if now else ""
        sentence = f"{opening(case)} partitions{of} are not known; its baseline has them."
        return invalid("partitions-missing", sentence, metric=METRIC)
    if not now:
        return None
    texts = [f"{component(name)} graph runs as {_told(one)}" for name, one in now.items()]
    if not before:
        return Verdict(Outcome.NEW, "no-baseline", f"{_sentence(texts)}, which has no baseline yet.", METRIC)
    changed = {name: before[name] for name, one in now.items() if name in before and before[name] != one}
    unknown = f"; of the {_listed(new)} graph nothing is stored yet" if new else ""
    if unknown and not changed:
        return Verdict(Outcome.NEW, "no-baseline", f"{_sentence(texts)}{unknown}.", METRIC)
    if not changed:
        return Verdict(Outcome.HELD, "partitions-as-before", f"{_sentence(texts)}, as in its baseline.", METRIC)
    texts += [f"in its baseline the {component(name)} graph runs as {_told(one)}" for name, one in changed.items()]
    worse = any(
        now[name]["engines"] > one["engines"] or now[name]["cpu_nodes"] > one["cpu_nodes"]
        for name, one in changed.items()
    )
    outcome, code = (Outcome.REGRESSED, "more-partitions") if worse else (Outcome.IMPROVED, "fewer-partitions")
    return Verdict(outcome, code, f"{_sentence(texts)}{unknown}{since(level[-1], measurement.subject)}.", METRIC)


def _listed(names: list[str]) -> str:
    return " and the ".join(map(component, names))


def _sentence(texts: list[str]) -> str:
    return f"The {'; '.join(texts)}"


def _told(one: Partitions) -> str:
    return f"{plural(one['engines'], 'engine')} and {plural(one['cpu_nodes'], 'node')} on the CPU"


def _most(found: list[dict[str, Partitions]]) -> dict[str, Partitions]:
    """Return the largest numbers of several processes."""
    names = dict.fromkeys(name for one in found for name in one)
    each = {name: [one[name] for one in found if name in one] for name in names}
    return {
        name: {"engines": max(one["engines"] for one in ones), "cpu_nodes": max(one["cpu_nodes"] for one in ones)}
        for name, ones in each.items()
    }
